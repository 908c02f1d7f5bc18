import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const config = join(root, '.dependency-cruiser.cjs')
const cruiser = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs')

/** One import, written into a file of its own: from which file, of what, and the rules that must report it. */
interface Plant {
  from: string
  imports: string
  how: 'value' | 'type'
  rules: string[]
}

const breaks = (from: string, imports: string, ...rules: string[]): Plant => ({ from, imports, how: 'value', rules })
const breaksAsType = (from: string, imports: string, ...rules: string[]): Plant => ({
  from,
  imports,
  how: 'type',
  rules,
})
const holds = (from: string, imports: string): Plant => ({ from, imports, how: 'value', rules: [] })
const holdsAsType = (from: string, imports: string): Plant => ({ from, imports, how: 'type', rules: [] })

const plants: Plant[] = [
  holds('src/calls/some-rules.ts', 'src/syncs/rules.ts'),
  holds('src/calls/some-rules.ts', 'src/framework/errors.ts'),
  holds('src/calls/some-rules.ts', 'node:crypto'),
  breaks('src/calls/some-rules.ts', 'node:fs', 'rules-are-pure'),
  breaks('src/calls/some-rules.ts', 'zod', 'rules-are-pure'),
  breaks('src/calls/some-rules.ts', 'src/calls/queries.ts', 'rules-are-pure'),

  holds('src/workflows', '@temporalio/workflow'),
  holds('src/workflows', 'src/syncs/sync-jobs.ts'),
  holdsAsType('src/workflows', 'src/activities/index.ts'),
  breaks('src/workflows', 'src/activities/index.ts', 'workflows-are-replayed'),
  breaks('src/workflows', 'node:crypto', 'workflows-are-replayed'),
  breaks('src/workflows', '@temporalio/client', 'workflows-are-replayed', 'place-of-temporalioclient'),

  holds('src/api', 'src/webhooks/rules.ts'),
  holds('src/api', 'src/create-integrations.ts'),
  holds('src/commands', 'src/commands/command-jobs.ts'),
  breaks('src/api', 'src/webhooks/arrival.ts', 'people-come-through-integrations'),
  breaks('src/commands', 'src/db/client.ts', 'people-come-through-integrations'),
  breaks('src/webhooks', 'src/api/app.ts', 'concepts-know-no-door'),
  breaksAsType('src/webhooks', 'src/activities/index.ts', 'concepts-know-no-door'),
  breaks('src/framework', 'src/temporal/connection.ts', 'concepts-know-no-door'),

  holds('src/webhooks', 'src/calls/request.ts'),
  holds('src/calls', 'src/db/client.ts'),
  holdsAsType('src/framework', 'src/events/listeners.ts'),
  breaks('src/framework', 'src/events/listeners.ts', 'services-know-no-concept'),
  ...[
    'access',
    'claims',
    'credentials',
    'events',
    'incidents',
    'mappings',
    'oauth',
    'providers',
    'retention',
    'calls',
    'echoes',
    'forwarding',
  ].map((concept) => breaks(`src/${concept}`, 'src/webhooks/arrival.ts', `arrows-of-${concept}`)),
  breaks('src/subscriptions', 'src/syncs/start.ts', 'arrows-of-subscriptions'),
  breaks('src/webhooks', 'src/syncs/start.ts', 'arrows-of-webhooks'),
  breaks('src/syncs', 'src/webhooks/arrival.ts', 'arrows-of-syncs'),
  breaks('src/integrations', 'src/access/signed-links.ts', 'arrows-of-integrations'),
  breaks('src/rehearsal', 'src/retention/pruning.ts', 'arrows-of-rehearsal'),
  breaks('src/explain', 'src/retention/pruning.ts', 'arrows-of-explain'),
  breaks('src/failures', 'src/retention/pruning.ts', 'arrows-of-failures'),
  breaks('src/observability', 'src/retention/pruning.ts', 'arrows-of-observability'),

  holds('src/adapters/github', 'src/provider.ts'),
  holds('src/adapters/github', 'durable-integrations/provider'),
  holds('src/adapters/github', '@octokit/rest'),
  breaks('src/adapters/github', 'src/adapters/stripe/index.ts', 'adapters-are-third-parties'),
  breaks('src/adapters/github', 'durable-integrations', 'adapters-are-third-parties'),

  breaks('src/calls', 'hono', 'place-of-hono'),
  breaks('src/calls', '@temporalio/common', 'place-of-temporalioactivitycommon'),
  breaks('src/api', '@temporalio/worker', 'place-of-temporalioworker'),
  breaks('src/api', '@temporalio/workflow', 'place-of-temporalioworkflow'),
  breaks('src/api', 'commander', 'place-of-clackpromptscli-tablecommander'),
  breaks('src/api', '@hono/node-server', 'place-of-hononode-serverjiti'),
  breaks('src/api', 'drizzle-orm', 'place-of-drizzle-orm'),
  breaks('src/calls', 'oauth4webapi', 'place-of-oauthwebapi'),
  breaks('src/calls', 'pino', 'place-of-pino'),
  breaks('src/calls', 'postgres', 'place-of-postgres'),
  breaks('src/calls', 'prom-client', 'place-of-prom-client'),
  breaks('src/calls', '@opentelemetry/sdk-trace-node', 'place-of-opentelemetryexporterresourcessdk'),
  breaks('src/calls', 'undici', 'place-of-undiciipaddrjs'),

  breaks('src/testing', 'vitest', 'src-imports-no-development-packages'),
  breaks('src/bin', 'dev/stack.ts', 'src-stands-alone'),
  breaks('src/bin', 'sandbox/github/main.ts', 'src-stands-alone'),
  breaks('src/calls', 'scripts/check.ts', 'src-stands-alone'),
  breaks('src/calls', './no-such-file.ts', 'imports-resolve'),
  breaks('test/calls', 'undeclared-package', 'packages-are-declared'),

  holds('examples/host', 'durable-integrations/github'),
  breaks('examples/host', 'src/index.ts', 'strangers-stay-strangers'),
  breaksAsType('examples/host', 'src/index.ts', 'strangers-stay-strangers'),
  breaks('sandbox/github', 'src/framework/errors.ts', 'strangers-stay-strangers'),
  breaks('examples/host', 'durable-integrations/framework/errors', 'imports-resolve'),
]

const isPath = (specifier: string) => /^(src|dev|test|sandbox|examples|scripts)\//.test(specifier)
const isPackage = (specifier: string) => !isPath(specifier) && !/^([.]|node:|durable-integrations)/.test(specifier)

/** A file per plant, so that a report names its plant; a single-file layer gets its imports all in that one file. */
const fileOf = (plant: Plant, index: number) =>
  plant.from.endsWith('.ts') ? plant.from : `${plant.from}/planted-${index}.ts`

function lineOf(plant: Plant, index: number): string {
  const path = relative(dirname(fileOf(plant, index)), plant.imports)
  const specifier = isPath(plant.imports) ? (path.startsWith('.') ? path : `./${path}`) : plant.imports
  return plant.how === 'value'
    ? `import { a as a${index} } from '${specifier}'\n`
    : `import type { A as A${index} } from '${specifier}'\n`
}

interface Violation {
  from: string
  to: string
  rule: { name: string }
}

async function cruise(folder: string): Promise<Violation[]> {
  const run = promisify(execFile)
  const args = [
    cruiser,
    '--config',
    config,
    '--output-type',
    'json',
    'src',
    'test',
    'sandbox',
    'examples',
    'scripts',
    'dev',
  ]
  // The cruiser's json reporter leaves with the number of violations as its status.
  const { stdout } = await run(process.execPath, args, { cwd: folder, maxBuffer: 64 * 1024 * 1024 }).catch(
    (error: unknown) => error as { stdout: string },
  )
  return (JSON.parse(stdout) as { summary: { violations: Violation[] } }).summary.violations
}

describe('import rules', () => {
  let folder: string
  let violations: Violation[]

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'import-rules-'))
    const write = async (path: string, text: string) => {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), text, { flag: 'a' })
    }
    for (const file of ['package.json', 'tsconfig.json']) await cp(join(root, file), join(folder, file))
    const stub = 'export const a = 1\nexport type A = string\n'
    const stubs = new Set([...plants.map((plant) => plant.imports).filter(isPath), 'src/adapters/github/index.ts'])
    for (const path of stubs) await write(path, stub)
    for (const name of new Set(plants.map((plant) => plant.imports).filter(isPackage))) {
      await write(`node_modules/${name}/package.json`, JSON.stringify({ name, version: '1.0.0', main: 'index.js' }))
      await write(`node_modules/${name}/index.js`, 'exports.a = 1\n')
    }
    for (const [index, plant] of plants.entries()) await write(fileOf(plant, index), lineOf(plant, index))
    await write('src/calls/circle-one.ts', "import { two } from './circle-two.ts'\nexport const one = () => two\n")
    await write('src/calls/circle-two.ts', "import { one } from './circle-one.ts'\nexport const two = () => one\n")
    await write(
      'src/calls/type-circle-one.ts',
      "import type { Two } from './type-circle-two.ts'\nexport type One = Two[]\n",
    )
    await write(
      'src/calls/type-circle-two.ts',
      "import type { One } from './type-circle-one.ts'\nexport type Two = One[]\n",
    )
    violations = await cruise(folder)
  }, 60_000)

  afterAll(() => rm(folder, { recursive: true, force: true }))

  const targetOf = (plant: Plant): RegExp => {
    if (isPackage(plant.imports)) return new RegExp(`node_modules/${plant.imports}/`)
    const entry = { 'durable-integrations': 'src/index.ts', 'durable-integrations/provider': 'src/provider.ts' }[
      plant.imports
    ]
    return new RegExp(`(^|/)${(entry ?? plant.imports).replace(/^node:|^[.]\//, '')}`)
  }

  const titleOf = ({ from, imports, how, rules }: Plant) =>
    `${from} ${rules.length > 0 ? 'may not' : 'may'} import ${how === 'type' ? 'a type of ' : ''}${imports}`

  it('report each import that breaks one, and no other', () => {
    for (const [index, plant] of plants.entries()) {
      const reported = violations
        .filter(({ from, to }) => from === fileOf(plant, index) && targetOf(plant).test(to))
        .map(({ rule }) => rule.name)
        .filter((name) => name !== 'no-circles')
      expect(reported.toSorted(), titleOf(plant)).toEqual(plant.rules.toSorted())
    }
  })

  it('reports files that import each other', () => {
    expect(
      violations.filter((violation) => violation.rule.name === 'no-circles').map((violation) => violation.from),
    ).toContain('src/calls/circle-one.ts')
  })

  it('lets types name each other', () => {
    expect(violations.filter((violation) => violation.from.startsWith('src/calls/type-circle'))).toEqual([])
  })

  it('has at least one break for every rule', () => {
    const { forbidden } = createRequire(import.meta.url)(config) as { forbidden: { name: string }[] }
    const planted = new Set(plants.flatMap((plant) => plant.rules))
    const unproven = forbidden.map((rule) => rule.name).filter((name) => !planted.has(name) && name !== 'no-circles')
    expect(unproven).toEqual([])
  })
})
