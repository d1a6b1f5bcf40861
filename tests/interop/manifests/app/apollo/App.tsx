import { gql } from '@apollo/client';

const MEMBER = gql`
  fragment Member on Viewer {
    subject
  }
`;

export const VIEWER = gql`
  query Viewer {
    viewer {
      ...Member
    }
  }
  ${MEMBER}
`;

export const PRODUCTS = gql`
  query Products($first: Int!, $full: Boolean!) {
    products(first: $first) {
      nodes {
        id
        title @include(if: $full)
      }
    }
  }
`;

export const CREATE = gql`
  mutation Create($input: CreateCategoryInput!) {
    createCategory(input: $input) {
      ... on CategoryPayload {
        category {
          name
        }
      }
      ... on UserError {
        message
      }
    }
  }
`;

export const POSTED = gql`
  subscription Posted($discussionId: ID!) {
    commentPosted(discussionId: $discussionId) {
      text
    }
  }
`;
