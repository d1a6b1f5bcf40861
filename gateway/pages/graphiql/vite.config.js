import { defineConfig } from 'vite';

export default defineConfig({
  base: '/graphiql/',
  publicDir: false,
  build: {
    outDir: '../static/graphiql',
    // The folder is outside of this one, so Vite does not empty it by default.
    emptyOutDir: true,
    target: 'es2022',
    sourcemap: false,
    modulePreload: { polyfill: false },
    // The licenses of the bundled libraries require their notices.
    license: { fileName: 'licenses.md' },
    // React's directives have no effect in a bundle without server components.
    rolldownOptions: { checks: { moduleLevelDirective: false } },
    // Monaco's core is one large chunk.
    chunkSizeWarningLimit: 4000,
    reportCompressedSize: false,
  },
  worker: { format: 'es' },
});
