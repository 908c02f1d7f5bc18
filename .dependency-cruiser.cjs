/**
 * Who may import whom. Docs: CONTRIBUTING.md, "Import rules". test/house/import-rules.test.ts plants an import that breaks each rule.
 */

/** Pure files: `rules.ts`, `…-rules.ts`, what workflows exchange (`…-jobs.ts`), and the plain values below. */
const RULES = [
  '/(rules|[a-z-]+-rules|[a-z-]+-jobs)[.]ts$',
  '^src/framework/(backoff|error-kind|errors|id|json|key-file|known-secrets|logger|lost-database|redaction|redactor|remedies|shell-word|thrown)[.]ts$',
  '^src/observability/(metrics|trace-header|traced-run)[.]ts$',
  '^src/webhooks/catalogue/',
]

/** The doors to the concepts. No concept knows them. */
const DOORS =
  '^src/((api|workflows|activities|commands|bin|temporal|adapters|testing)/|(index|admin|create-integrations|create-workers|worker-sizes|bundled-workflows|provider)[.]ts$)'

/**
 * What each concept may import beside rules, `framework/`, `db/` and the small services. A new arrow gets its word here first.
 * Pairs that name each other are those of decision 0048.
 */
const ARROWS = {
  access: ['observability'],
  calls: ['echoes', 'events', 'incidents', 'integrations', 'oauth', 'observability', 'providers'],
  claims: [],
  credentials: ['events', 'integrations', 'observability', 'providers'],
  echoes: ['calls', 'incidents', 'integrations', 'observability', 'providers'],
  events: ['calls', 'claims', 'credentials', 'providers'],
  explain: ['calls', 'events', 'incidents', 'syncs'],
  failures: ['observability', 'syncs', 'webhooks'],
  forwarding: ['providers'],
  incidents: ['calls', 'events', 'integrations', 'observability'],
  integrations: [
    'calls',
    'credentials',
    'events',
    'explain',
    'failures',
    'incidents',
    'mappings',
    'oauth',
    'observability',
    'providers',
    'retention',
    'subscriptions',
    'syncs',
    'webhooks',
  ],
  mappings: ['integrations', 'observability', 'providers'],
  oauth: [
    'access',
    'calls',
    'credentials',
    'events',
    'incidents',
    'integrations',
    'observability',
    'providers',
    'subscriptions',
  ],
  observability: ['calls', 'credentials', 'events', 'integrations', 'providers', 'syncs', 'webhooks'],
  providers: [],
  rehearsal: ['calls', 'forwarding', 'integrations', 'syncs', 'webhooks'],
  retention: ['calls', 'incidents', 'integrations', 'observability', 'providers', 'subscriptions'],
  subscriptions: ['calls', 'credentials', 'incidents', 'integrations', 'observability', 'providers', 'webhooks'],
  syncs: [
    'calls',
    'claims',
    'credentials',
    'echoes',
    'events',
    'forwarding',
    'incidents',
    'integrations',
    'observability',
    'providers',
  ],
  webhooks: [
    'calls',
    'claims',
    'credentials',
    'echoes',
    'events',
    'forwarding',
    'integrations',
    'observability',
    'providers',
  ],
}
const SERVICES = '^src/((framework|db|cache|config|egress)/|encryption[.]ts$)'

/** Packages that stand in one place, behind an interface of ours. */
const PLACES = {
  '@temporalio/(activity|common)': '^src/(activities/|temporal/|bundled-workflows|create-workers|worker-sizes)',
  '@temporalio/client': '^(src/(temporal/|create-integrations[.]ts$)|dev/)',
  '@temporalio/worker': '^src/(create-workers|worker-sizes|bundled-workflows)[.]ts$',
  '@temporalio/workflow': '^src/workflows/',
  '(@clack/prompts|cli-table3|commander)': '^(src/(commands|bin)/|dev/)',
  '(@hono/node-server|jiti)': '^(src/bin/|dev/)',
  'drizzle-orm': '^src/(?!api/|workflows/|activities/|commands/|adapters/|bin/|temporal/)',
  hono: '^src/(api/|testing/|(create-integrations|admin)[.]ts$)',
  oauth4webapi: '^src/(providers|access)/',
  pino: '^(src/(create-integrations[.]ts$|bin/)|dev/)',
  postgres: '^(src/(db|testing)/|src/create-integrations[.]ts$|dev/)',
  'prom-client': '^src/observability/prometheus[.]ts$',
  '@opentelemetry/(exporter|resources|sdk).*': '^src/observability/tracing-sdk[.]ts$',
  '(undici|ipaddr[.]js)': '^src/egress/',
}

/** Packages are looked up from any depth: in the tests' scratch folders and behind links the path has something before it. */
const insidePackage = (name) => `(^|/)node_modules/(@types/)?${name}/`

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    {
      name: 'rules-are-pure',
      severity: 'error',
      comment: 'A rule imports other rules, and of Node its hashes.',
      from: { path: RULES },
      to: { path: '.', pathNot: [...RULES, '^(node:)?crypto$'], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'workflows-are-replayed',
      severity: 'error',
      comment: 'What a workflow reaches must be deterministic and small: rules, messages, @temporalio/workflow.',
      from: { path: '^src/workflows/' },
      to: {
        path: '.',
        pathNot: [...RULES, '^src/workflows/', insidePackage('@temporalio/workflow')],
        dependencyTypesNot: ['type-only'],
      },
    },
    {
      name: 'concepts-know-no-door',
      severity: 'error',
      comment: 'Doors (api, workflows, activities, commands …) import concepts, never the other way round.',
      from: { path: `^src/(${Object.keys(ARROWS).join('|')}|framework|db|cache|config|egress)/` },
      to: { path: DOORS, pathNot: RULES },
    },
    {
      name: 'people-come-through-integrations',
      severity: 'error',
      comment:
        'The API and the command line ask the `integrations` object, and know rules; they reach no row by themselves.',
      from: { path: '^src/(api|commands)/' },
      to: {
        path: '^src/',
        pathNot: [
          ...RULES,
          '^src/(api|commands)/',
          '^src/(create-integrations|bundled-workflows|encryption)[.]ts$',
          '^src/testing/simulation/plan-text[.]ts$',
          '^src/(framework/(instant|package-version)|providers/webhook-request|observability/spans)[.]ts$',
        ],
        dependencyTypesNot: ['type-only'],
      },
    },
    ...Object.entries(ARROWS).map(([concept, others]) => ({
      name: `arrows-of-${concept}`,
      severity: 'error',
      comment: `${concept}/ may import of the other concepts: ${others.join(', ') || 'none'}, and the rules of all. See ARROWS.`,
      from: { path: `^src/${concept}/` },
      to: { path: '^src/', pathNot: [...RULES, SERVICES, DOORS, `^src/(${[concept, ...others].join('|')})/`] },
    })),
    {
      name: 'services-know-no-concept',
      severity: 'error',
      comment: 'framework, db, cache, config and egress serve the concepts; they name them by `import type` only.',
      from: { path: SERVICES, pathNot: RULES },
      to: { path: '^src/', pathNot: [...RULES, SERVICES, DOORS], dependencyTypesNot: ['type-only'] },
    },
    {
      name: 'adapters-are-third-parties',
      severity: 'error',
      comment: 'An adapter imports provider.ts, as any provider does, and packages of its own.',
      from: { path: '^src/adapters/([^/]+)/' },
      to: { path: '^(src|dev)/', pathNot: ['^src/provider[.]ts$', '^src/adapters/$1/'] },
    },
    {
      name: 'src-stands-alone',
      severity: 'error',
      comment: 'src/ is what we ship: it imports nothing that stays in the repository.',
      from: { path: '^src/' },
      to: { path: '^(dev|test|bench|examples|sandbox|scripts)/' },
    },
    {
      name: 'strangers-stay-strangers',
      severity: 'error',
      comment:
        'A sandbox provider shares no code with what it tests; an example imports the package by name, as a host does.',
      from: { path: '^(sandbox|examples)/' },
      to: { path: '^(src|dev|test|bench|scripts)/', dependencyTypes: ['local'] },
    },
    {
      name: 'src-imports-no-development-packages',
      severity: 'error',
      comment: 'A host installs our `dependencies` only.',
      from: { path: '^src/' },
      // An optional peer is in devDependencies too, so that our own tests have it.
      to: { dependencyTypes: ['npm-dev'], dependencyTypesNot: ['type-only', 'npm-peer'] },
    },
    ...Object.entries(PLACES).map(([name, place]) => ({
      name: `place-of-${name.replaceAll(/[^a-z-]/g, '')}`,
      severity: 'error',
      comment: `${name} is imported in ${place} only.`,
      from: { path: '^(src|dev)/', pathNot: [place, '^src/adapters/'] },
      to: { path: insidePackage(name) },
    })),
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
