/**
 * Who may import whom. The table below is the rule; docs: CONTRIBUTING.md, "Layers and import rules".
 *
 * Every layer is an allow-list: what it does not name is forbidden, be it ours, a package or a part of Node.
 * A new folder under src/ needs a line here before it may import anything. test/house/import-rules.test.ts plants
 * one breaking import for each line and expects it to be reported.
 *
 * @typedef {object} Layer
 * @property {string} path      the layer's own files, which may always import each other
 * @property {string[]} [ours]  files of ours it may import
 * @property {string[]} [types] files of ours it may name in `import type` only
 * @property {string[]} [npm]   packages it may import
 * @property {string[]} [not]   for a layer with packages of its own choice: the packages it may not import
 * @property {string[]} [node]  parts of Node it may import; all when left out
 */

const ERRORS = '^src/core/errors[.]ts$'
const EMBEDDED_POSTGRES_FILES = '^src/bin/dev([.]ts$|/)'
const TEMPORAL_SERVER_FILES = '^src/temporal/server-binary[.]ts$'

/** @type {Record<string, Layer>} */
const layers = {
  // node:crypto hashes are pure; everything else in Node reaches the world.
  core: { path: '^src/core/', node: ['crypto'] },
  config: { path: '^src/config/', ours: ['^src/core/'], npm: ['zod'] },
  providers: { path: '^src/providers/', ours: ['^src/core/'], npm: ['zod', 'oauth4webapi'] },
  egress: { path: '^src/egress/', ours: ['^src/core/'], npm: ['undici', 'ipaddr[.]js'] },
  events: { path: '^src/events/', ours: ['^src/core/', '^src/providers/'] },
  // The driver is met where connections, migrations and columns are made; queries speak drizzle.
  db: {
    path: '^src/db/(?!client[.]ts$|database-url[.]ts$|migrate[.]ts$|pool[.]ts$|schema(/|[.]ts$))',
    // A claim's text is a rule of core's that a statement must write and find again.
    ours: ['^src/db/', '^src/core/(errors|claim)[.]ts$'],
    types: ['^src/core/'],
    npm: ['drizzle-orm'],
  },
  'db-driver': {
    path: '^src/db/(client[.]ts$|database-url[.]ts$|migrate[.]ts$|pool[.]ts$|schema(/|[.]ts$))',
    ours: ['^src/db/', '^src/core/(errors|key-file)[.]ts$'],
    types: ['^src/core/'],
    npm: ['drizzle-orm', 'postgres'],
  },
  cache: { path: '^src/cache/', ours: ['^src/core/', '^src/db/'], npm: ['drizzle-orm'] },
  instant: { path: '^src/instant[.]ts$', npm: ['zod'] },
  encryption: { path: '^src/encryption[.]ts$', ours: ['^src/core/'] },
  framework: {
    path: '^src/framework[.]ts$',
    types: ['^src/(core|config|db|cache|egress|providers|events)/', '^src/encryption[.]ts$'],
    npm: ['pino', 'zod'],
  },
  // Spans are written by OpenTelemetry's API; its SDK is met in one file, which is loaded only where it is asked for.
  tracing: {
    path: '^src/tracing/(?!sdk[.]ts$)',
    ours: ['^src/core/', '^src/tracing/'],
    npm: ['@opentelemetry/api'],
    node: [],
  },
  'tracing-sdk': {
    path: '^src/tracing/sdk[.]ts$',
    ours: ['^src/core/'],
    npm: [
      '@opentelemetry/api',
      '@opentelemetry/exporter-trace-otlp-proto',
      '@opentelemetry/resources',
      '@opentelemetry/sdk-trace-node',
    ],
    node: [],
  },
  operations: {
    path: '^src/operations/',
    ours: [
      '^src/framework[.]ts$',
      '^src/(core|providers|events|db|cache|egress|tracing)/',
      '^src/(encryption|instant)[.]ts$',
    ],
    // drizzle-orm: mapped-table.ts works on a host's own tables.
    npm: ['zod', 'drizzle-orm', '@opentelemetry/api'],
  },
  activities: {
    path: '^src/activities/',
    ours: ['^src/(framework|instant)[.]ts$', '^src/(operations|core|providers|events|db|tracing)/'],
    // zod: what a person types as the input of a command's workflow.
    npm: ['@temporalio/activity', '@temporalio/common', '@opentelemetry/api', 'zod'],
  },
  // What is counted, as Prometheus reads it. Everybody else knows it by the port in core.
  metrics: {
    path: '^src/metrics/',
    ours: ['^src/core/'],
    types: ['^src/db/queries/metrics[.]ts$'],
    npm: ['prom-client'],
    node: [],
  },
  // A workflow is replayed: what it reaches must be deterministic and small.
  workflows: {
    path: '^src/workflows/',
    ours: ['^src/core/'],
    types: ['^src/activities/'],
    npm: ['@temporalio/workflow'],
    node: [],
  },
  temporal: {
    path: '^src/temporal/',
    ours: ['^src/framework[.]ts$', '^src/(core|config|tracing)/', '^src/workflows/ids[.]ts$'],
    types: ['^src/workflows/'],
    npm: ['@temporalio/client', '@temporalio/common', '@temporalio/testing'],
  },
  integrations: {
    path: '^src/integrations[.]ts$',
    ours: [
      '^src/(core|config|providers|egress|events|db|cache|operations|temporal|tracing|metrics)/',
      '^src/(framework|encryption)[.]ts$',
      '^src/workflows/ids[.]ts$',
    ],
    types: ['^src/workflows/'],
    npm: ['pino', 'postgres', '@temporalio/client', 'hono'],
  },
  worker: {
    path: '^src/(worker|worker-sizes|bundled-workflows)[.]ts$',
    ours: [
      '^src/integrations[.]ts$',
      '^src/(activities|temporal)/',
      // Loads the command line when a command's workflow asks for it.
      '^src/cli/in-worker[.]ts$',
      '^src/core/(errors|logger|redaction)[.]ts$',
      '^src/workflows/ids[.]ts$',
    ],
    types: ['^src/framework[.]ts$'],
    npm: ['@temporalio/worker', '@temporalio/common'],
  },
  api: {
    path: '^src/api/',
    // The rules of who may call, the words for health, which JSON is kept as it is, how a lost Postgres is known, and how an authorization is shown, are core's.
    ours: [
      '^src/(integrations|instant)[.]ts$',
      '^src/providers/webhook-request[.]ts$',
      '^src/core/(access|errors|health|json-scan|lost-database|oauth-status|switched-off|thrown)[.]ts$',
      '^src/tracing/spans[.]ts$',
    ],
    types: ['^src/config/schema[.]ts$'],
    npm: ['hono', '@hono/node-server', 'zod', '@opentelemetry/api'],
  },
  cli: {
    path: '^src/cli/',
    // encryption: a new key is made without a host and without a database. How an authorization is shown, what a provider may be
    // called, and which JSON is kept as it is, is core's.
    ours: [
      '^src/(integrations|instant)[.]ts$',
      '^src/providers/webhook-request[.]ts$',
      '^src/encryption[.]ts$',
      '^src/core/(failure-class|json-scan|lost-database|oauth-status|provider-identifier|redaction|switched-off)[.]ts$',
      '^src/bundled-workflows[.]ts$',
      ERRORS,
    ],
    types: ['^src/core/command-jobs[.]ts$'],
    npm: ['commander', 'jiti', 'zod', 'cli-table3', '@clack/prompts'],
  },
  bin: {
    path: '^src/bin/(?!dev([.]ts$|/))',
    ours: [
      '^src/bin/',
      '^src/(api|cli|temporal|config)/',
      '^src/worker[.]ts$',
      '^src/core/(errors|logger|redaction)[.]ts$',
      '^src/tracing/start[.]ts$',
    ],
    types: ['^src/integrations[.]ts$'],
    npm: ['@hono/node-server', 'commander', 'jiti', 'pino'],
  },
  'bin-dev': {
    path: EMBEDDED_POSTGRES_FILES,
    ours: ['^src/bin/', '^src/(api|cli|temporal|config)/', '^src/worker[.]ts$', '^src/core/(errors|logger)[.]ts$'],
    types: ['^src/integrations[.]ts$'],
    npm: ['@hono/node-server', 'commander', 'jiti', 'pino', 'embedded-postgres', 'postgres'],
  },
  index: {
    path: '^src/index[.]ts$',
    ours: [
      '^src/(integrations|provider|encryption)[.]ts$',
      '^src/(core|events)/',
      '^src/operations/mapped-table[.]ts$',
    ],
    types: ['^src/framework[.]ts$', '^src/(config|db|egress|operations|providers|temporal)/'],
  },
  provider: { path: '^src/provider[.]ts$', ours: ['^src/(providers|core)/'] },
  // Written as a third party would; its packages are its own, ours are not for it.
  adapters: {
    path: '^src/adapters/([^/]+)/',
    ours: ['^src/provider[.]ts$', '^src/adapters/$1/'],
    not: [
      '@temporalio/',
      'drizzle-orm',
      'postgres',
      'hono',
      '@hono/',
      'pino',
      'commander',
      'jiti',
      'embedded-postgres',
    ],
  },
  // A whole framework in one process: the activities without Temporal, the tables in an embedded Postgres.
  testing: {
    path: '^src/testing/',
    ours: [
      '^src/(index|integrations|framework|encryption)[.]ts$',
      '^src/cache/memory[.]ts$',
      '^src/(core|providers|activities|api|db|events|egress)/',
    ],
    npm: ['@electric-sql/pglite', 'postgres', 'drizzle-orm', 'hono', 'zod'],
  },
}

/** Packages are looked up from any depth: in the tests' scratch folders and behind links the path has something before it. */
const insidePackage = (names) =>
  names.map((name) => `(^|/)node_modules/(@types/)?${name}${name.endsWith('/') ? '' : '/'}`)

const list = (paths) =>
  paths.map((path) => path.replace(/[\^$\\[\]()]/g, '').replace(/[.]ts/g, '.ts')).join(', ') || 'nothing'

/** @param {[string, Layer]} entry */
const rulesOf = ([name, { path, ours = [], types = [], npm = [], not, node }]) => {
  const own = name === 'adapters' ? [] : [path]
  const allowed = [...own, ...ours]
  const rule = (aspect, comment, to, from = { path }) => ({
    name: `${name}-${aspect}`,
    severity: 'error',
    comment,
    from,
    to,
  })
  return [
    rule('imports-ours', `${name} may import of ours: ${list(ours)}; by \`import type\` also: ${list(types)}.`, {
      path: '^src/',
      pathNot: [...allowed, ...types],
    }),
    types.length > 0 &&
      rule('imports-types-only', `${name} may name ${list(types)} in \`import type\` only.`, {
        path: types,
        pathNot: allowed,
        dependencyTypesNot: ['type-only'],
      }),
    not
      ? rule('imports-packages', `${name} brings its own packages and may not use ours: ${not.join(', ')}.`, {
          path: insidePackage(not),
        })
      : rule('imports-packages', `${name} may import of npm: ${npm.join(', ') || 'nothing'}.`, {
          path: '(^|/)node_modules/',
          ...(npm.length > 0 && { pathNot: insidePackage(npm) }),
        }),
    node &&
      rule('imports-node', `${name} may import of Node: ${node.join(', ') || 'nothing'}.`, {
        dependencyTypes: ['core'],
        ...(node.length > 0 && { pathNot: node.map((part) => `^(node:)?${part}$`) }),
      }),
  ].filter(Boolean)
}

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...Object.entries(layers).flatMap(rulesOf),
    {
      name: 'src-belongs-to-a-layer',
      severity: 'error',
      comment:
        'Each file under src/ belongs to a layer of .dependency-cruiser.cjs; a new folder gets its line there first.',
      from: { path: '^src/', pathNot: Object.values(layers).map((layer) => layer.path) },
      to: {},
    },
    {
      name: 'src-stands-alone',
      severity: 'error',
      comment:
        'src/ is what we ship: it imports no test, bench, example, sandbox or script. The sandbox is reached over HTTP.',
      from: { path: '^src/' },
      to: { path: '^(test|bench|examples|sandbox|scripts)/' },
    },
    {
      name: 'src-imports-no-development-packages',
      severity: 'error',
      comment: 'A host installs our `dependencies` only. `npm start` and the Temporal finder may use what a clone has.',
      from: { path: '^src/', pathNot: [EMBEDDED_POSTGRES_FILES, TEMPORAL_SERVER_FILES] },
      // An optional peer is in devDependencies too, so that our own tests have it.
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only', 'npm-peer'] },
    },
    {
      name: 'sandbox-knows-only-the-wire',
      severity: 'error',
      comment: 'A sandbox provider is a stranger: it shares no code with what it tests.',
      from: { path: '^sandbox/' },
      to: { path: '^(src|test|bench|examples|scripts)/' },
    },
    {
      name: 'examples-import-by-name',
      severity: 'error',
      comment: "An example imports 'durable-integrations' and its entries by name, as a host does.",
      from: { path: '^examples/' },
      to: { path: '^(src|test|bench|sandbox|scripts)/', dependencyTypes: ['local'] },
    },
    {
      name: 'no-circles',
      severity: 'error',
      comment: 'Files that import each other load in an order nobody chose. (Types that name each other are fine.)',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'imports-resolve',
      severity: 'error',
      comment: 'The file or package does not exist, or the package does not export that path.',
      from: {},
      to: { couldNotResolve: true },
    },
    {
      name: 'packages-are-declared',
      severity: 'error',
      comment: 'The package is there by chance: it is not in package.json.',
      from: {},
      // The cruiser lists a peer as `npm-no-pkg` as well.
      to: { dependencyTypes: ['npm-no-pkg', 'npm-unknown'], dependencyTypesNot: ['npm-peer'] },
    },
  ],
  options: {
    doNotFollow: { path: '(^|/)node_modules/' },
    exclude: { path: '^(dist|[.]data|drizzle)/' },
    // Types count too: without it `import type` would be invisible to every rule.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      // `durable-source` as in tsconfig.json: the package's own name leads to src/, not to dist/.
      conditionNames: ['durable-source', 'types', 'import', 'node', 'default', 'require'],
      mainFields: ['module', 'main', 'types', 'typings'],
      extensions: ['.ts', '.js', '.mjs', '.cjs', '.json', '.d.ts'],
    },
  },
}
