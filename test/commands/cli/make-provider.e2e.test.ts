/**
 * What make-provider writes compiles and passes as it is written: with the package installed, by the program itself, in a vitest
 * of the host's own. All 64 combinations are compiled. The suites of the usual parts, of all and of none are run; those of every
 * combination in make-provider.long.test.ts.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, inject, it } from 'vitest'
import type { Part } from '../../../src/commands/scaffold/names.ts'
import { PARTS } from '../../../src/commands/scaffold/names.ts'
import { WEBHOOK_DOORS } from '../../../src/webhooks/catalogue/index.ts'
import type { SuiteResult } from './written-providers.ts'
import { COMBINATIONS, compilerErrors, suiteResults, TIMESTAMPED, writeProvider } from './written-providers.ts'

const PACKAGE = fileURLToPath(new URL('../../../', import.meta.url))

/** Beside the usual ones, which the program itself writes. */
const RUN: readonly (readonly Part[])[] = [PARTS, []]
/** Of each kind of signature one, and of each handshake, answer and list of events that is written as code. */
const LIKE = [
  ...[
    'shopify',
    'twilio',
    'sendgrid',
    'google-pubsub',
    'amazon-sns',
    'slack',
    'zoom',
    'meta',
    'adyen',
    'xero',
    'asana',
  ],
  ...['trello', 'notion', 'dropbox', 'okta', 'azure-event-grid', 'hubspot', 'gocardless'],
  ...TIMESTAMPED,
]
const DOORS = [...Object.keys(WEBHOOK_DOORS), ...TIMESTAMPED]

let host: string
let suites: Promise<ReadonlyMap<string, SuiteResult>>
/** In the clone, where the package's own name leads to src/ and its types. */
let sources: string

beforeAll(async () => {
  host = await mkdtemp(join(inject('installed'), 'make-provider-'))
  sources = await mkdtemp(join(PACKAGE, '.data', 'make-provider-'))
  await promisify(execFile)(join(inject('installed'), 'node_modules/.bin/integrations'), ['make-provider', 'acme'], {
    cwd: host,
  })
  for (const parts of RUN) await writeProvider(host, parts)
  for (const like of LIKE) await writeProvider(host, ['webhooks'], 'acme', like)
  await alter(
    await writeProvider(join(host, 'broken'), ['webhooks']),
    'deliveryIdSigned = false',
    'deliveryIdSigned = true',
  )
  // Beside the compiler: both have one core then.
  suites = suiteResults(host, { conditions: [], workers: 1 })
  suites.catch(() => {})
})
afterAll(async () => {
  await Promise.allSettled([suites])
  await Promise.all([host, sources].map((folder) => rm(folder, { recursive: true, force: true })))
})

async function alter(name: string, from: string, to: string): Promise<void> {
  const path = join(host, 'broken', name, 'acme.ts')
  const text = await readFile(path, 'utf8')
  expect(text).toContain(from)
  await writeFile(path, text.replace(from, to))
}

it('compiles with every check on, whatever it is made with', async () => {
  const names = new Set<string>()
  for (const parts of COMBINATIONS) names.add(await writeProvider(sources, parts))
  expect(names.size).toBe(64)
  for (const like of DOORS) await writeProvider(sources, ['webhooks'], 'acme', like)
  const text = await readFile(join(sources, 'sync', 'acme.ts'), 'utf8')
  await writeFile(
    join(sources, 'mistaken.ts'),
    text.replace('SYNC_INTERVAL_MINUTES = 15', "SYNC_INTERVAL_MINUTES = 'often'"),
  )
  // One that is wrong shows that the compiler has looked.
  expect(await compilerErrors(sources, { resolution: 'nodenext', compiler: 'typescript-7' })).toEqual([
    expect.stringMatching(/^mistaken\.ts\(\d+,\d+\): .* Type 'string' is not assignable to type 'number'\.$/),
  ])
})

it('is laid out by the formatter of this package as it is written', async () => {
  for (const identifier of ['acme', 'a-rather-long-name-of-one'])
    for (const parts of COMBINATIONS) await writeProvider(join(sources, identifier), parts, identifier)
  for (const like of DOORS) await writeProvider(join(sources, 'like'), ['webhooks'], 'acme', like)
  // The package's own configuration passes the folder by in which these stand.
  const configuration = JSON.parse(await readFile(join(PACKAGE, 'biome.json'), 'utf8')) as object
  const here = { files: { includes: ['**/*.ts'] }, json: { formatter: { enabled: false } } }
  await writeFile(join(sources, 'biome.json'), JSON.stringify({ ...configuration, ...here }))
  const biome = join(PACKAGE, 'node_modules/.bin/biome')
  // It ends with 1 for a file that it would write otherwise.
  const { stdout, stderr } = await promisify(execFile)(
    biome,
    ['ci', '--linter-enabled=false', '--vcs-enabled=false', '.'],
    {
      cwd: sources,
    },
  )
  expect(stdout + stderr).toMatch(/Checked \d{3} files/)
})

it('passes the conformance suite, made with the usual parts, with all, with none, and like others', async () => {
  const results = await suites
  const names = RUN.map((parts) => `${parts.join('-') || 'none'}/acme.test.ts`)
  const like = LIKE.map((name) => `${name}/acme.test.ts`)
  for (const path of [...names, ...like, 'src/providers/acme.test.ts']) {
    expect(results.get(path), path).toEqual({ passed: expect.any(Number), failed: [] })
    expect(results.get(path)?.passed, path).toBeGreaterThan(0)
  }
})

// Of a module in TypeScript Node 20 says that it can't read it; of one in JavaScript, as later ones of TypeScript: that there is no acme.js.
it.each(['ts', 'mjs'])(
  'is found by the commands in an integrations.config.%s, under the name that is printed',
  async (ending) => {
    const module = join(host, `integrations.config.${ending}`)
    const lines = [
      "import { AcmeProvider } from './src/providers/acme.js'",
      'export default { ready() {}, label: new AcmeProvider().label }',
    ]
    await writeFile(module, lines.join('\n'))
    const loader = pathToFileURL(join(inject('installed'), 'node_modules/durable-integrations/dist/bin/host.js')).href
    const script = `const { loadHost } = await import(${JSON.stringify(loader)})
    console.log((await loadHost(${JSON.stringify(module)})).integrations.label)`
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
      cwd: host,
    })
    expect(stdout).toBe('Acme\n')
  },
)

it('does not pass when it takes an id that is not signed for a signed one', async () => {
  const { failed = [] } = (await suites).get('broken/webhooks/acme.test.ts') ?? {}
  expect(failed.join('\n')).toMatch(/has an id that its signature covers/)
})
