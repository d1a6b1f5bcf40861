import { copyFileSync } from 'node:fs';
import { defineConfig } from 'vite';

const GATEWAY = process.env['GATEWAY'] ?? 'http://127.0.0.1:8000';
const BUILT = '../../gateway/pages/static/storefront';

export default defineConfig({
  base: '/shop/',
  plugins: [
    {
      // The gateway serves the page and trusts its operations, so it gets both from one build.
      name: 'trusted-documents',
      closeBundle: () => copyFileSync('src/gql/persisted-documents.json', `${BUILT}/persisted-documents.json`),
    },
  ],
  build: {
    outDir: BUILT,
    // The folder is outside of this one, so Vite does not empty it by default.
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    // The licenses of the bundled libraries require their notices.
    license: { fileName: 'licenses.md' },
    // React's directives have no effect in a bundle without server components.
    rolldownOptions: { checks: { moduleLevelDirective: false } },
  },
  server: {
    proxy: {
      '/graphql': { target: GATEWAY, ws: true },
      // The gateway gives tokens only to pages of its own host.
      '/shop/session.json': { target: GATEWAY, changeOrigin: true },
    },
  },
});
