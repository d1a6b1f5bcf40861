import type { CodegenConfig } from '@graphql-codegen/cli';
import { addTypenameSelectionDocumentTransform } from '@graphql-codegen/client-preset';

// From each `.graphql` file: the types of its operations, and the operations as trusted documents.
const config: CodegenConfig = {
  schema: '../../schema.graphql',
  documents: 'src/**/*.graphql',
  generates: {
    'src/gql/': {
      preset: 'client',
      // A component takes the type of its fragment. Without masking, that is all there is to learn.
      presetConfig: { fragmentMasking: false, persistedDocuments: { hashAlgorithm: 'sha256' } },
      // The store needs the name of each object's type, and the gateway runs the text of the manifest.
      documentTransforms: [addTypenameSelectionDocumentTransform],
      config: {
        scalars: { ID: 'string', BigInt: 'number', DateTime: 'string', JSON: 'unknown', Upload: 'File' },
        useTypeImports: true,
      },
    },
    // Which types belong to which interfaces and unions.
    'src/gql/possible-types.ts': { plugins: ['fragment-matcher'], config: { useExplicitTyping: true } },
  },
};

export default config;
