import { graphql } from 'relay-runtime';

export const member = graphql`
  fragment App_member on Viewer {
    subject
  }
`;

export const viewer = graphql`
  query AppViewerQuery {
    viewer {
      ...App_member
    }
  }
`;

export const products = graphql`
  query AppProductsQuery($first: Int!, $full: Boolean!) {
    products(first: $first) {
      nodes {
        id
        title @include(if: $full)
      }
    }
  }
`;

export const create = graphql`
  mutation AppCreateMutation($input: CreateCategoryInput!) {
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

export const posted = graphql`
  subscription AppPostedSubscription($discussionId: ID!) {
    commentPosted(discussionId: $discussionId) {
      text
    }
  }
`;
