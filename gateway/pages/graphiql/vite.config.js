import { defineConfig } from 'vite';

// GraphiQL names a tab after its operation. With these changes, a tab that has a title keeps it.
const TITLES = [
  ['variables = null, headers = null } = {}', 'variables = null, headers = null, title: ownTitle = null } = {}'],
  ['title: operationName || DEFAULT_TITLE,\n\t\tquery,\n\t\tvariables,\n\t\theaders,\n\t\toperationName,', 'ownTitle,\n\t\ttitle: ownTitle || operationName || DEFAULT_TITLE,\n\t\tquery,\n\t\tvariables,\n\t\theaders,\n\t\toperationName,'],
  ['title: newTab.operationName ||', 'title: newTab.ownTitle || newTab.operationName ||'],
];
const titles = {
  name: 'titles-of-tabs',
  transform(code, id) {
    if (!id.includes('@graphiql/react/dist/utility/tabs.js')) {
      return null;
    }
    return TITLES.reduce((text, [from, to]) => {
      if (text.split(from).length !== 2) {
        throw new Error(`GraphiQL has changed: tabs.js does not have ${JSON.stringify(from)} once.`);
      }
      return text.replace(from, () => to);
    }, code);
  },
};

export default defineConfig({
  base: '/graphiql/',
  publicDir: false,
  plugins: [titles],
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
