import { defineConfig } from 'vite';

export default defineConfig({
  base: '/graphiql/',
  publicDir: false,
  build: {
    outDir: '../static/graphiql',
    // The folder lies outside this one, so Vite does not empty it unasked.
    emptyOutDir: true,
    target: 'es2022',
    sourcemap: false,
    modulePreload: { polyfill: false },
    // The bundled libraries ask for their notices to be kept.
    license: { fileName: 'licenses.md' },
    // React's directives mean nothing in a bundle without server components.
    rolldownOptions: { checks: { moduleLevelDirective: false } },
    // Monaco's core is one large chunk.
    chunkSizeWarningLimit: 4000,
    reportCompressedSize: false,
  },
  worker: { format: 'es' },
});
