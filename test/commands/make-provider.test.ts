/** What is written where, and what is refused. That it compiles and passes: test/commands/cli/make-provider.e2e.test.ts. */
import { lstat, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { PARTS } from '../../src/commands/scaffold/names.ts'
import type { Ran } from './cli/run.ts'
import { runCommand } from './cli/run.ts'

const PACKAGE_JSON = new URL('../../package.json', import.meta.url)
const PackageJson = z.object({ devDependencies: z.object({ vitest: z.string() }) })

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'make-provider-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** With a folder of the test's own, unless the words name one. */
function make(...words: string[]): Promise<Ran> {
  const dir = words.includes('--dir') ? [] : ['--dir', folder]
  return runCommand(async () => expect.unreachable('no host is needed'), ['make-provider', ...words, ...dir])
}

const read = (name: string): Promise<string> => readFile(join(folder, name), 'utf8')

describe('make-provider', () => {
  it('writes a provider and its tests, into a folder that it makes', async () => {
    const dir = join(folder, 'app', 'providers')
    const { exitCode, err, json } = await make('acme-crm', '--dir', dir, '--json')
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: '' })
    expect(json()).toEqual({
      identifier: 'acme-crm',
      class_name: 'AcmeCrmProvider',
      with: ['sync', 'writes', 'webhooks', 'health'],
      files: [join(dir, 'acme-crm.ts'), join(dir, 'acme-crm.test.ts')],
    })
    expect(await readdir(dir)).toEqual(['acme-crm.test.ts', 'acme-crm.ts'])
    expect(await read('app/providers/acme-crm.ts')).toContain(
      'export class AcmeCrmProvider implements HasIncrementalSync, SupportsIdempotency, HandlesWebhooks {',
    )
    expect(await read('app/providers/acme-crm.test.ts')).toContain("import { AcmeCrmProvider } from './acme-crm.js'")
  })

  it('says how to go on', async () => {
    const { exitCode, out } = await make('acme-crm', '--with', 'oauth')
    expect(exitCode).toBe(0)
    const lines = out.split('\n')
    const path = relative('.', join(folder, 'acme-crm.js'))
    for (const line of [
      `  ${join(folder, 'acme-crm.ts')}`,
      '  npm install durable-integrations zod && npm install --save-dev vitest@4.0 @electric-sql/pglite@0.5',
      `  npx vitest run ${join(folder, 'acme-crm.test.ts')}`,
      `  import { AcmeCrmProvider } from '${path}'`,
      "  providers: { 'acme-crm': new AcmeCrmProvider({ id: process.env.ACME_CRM_CLIENT_ID ?? '', secret: process.env.ACME_CRM_CLIENT_SECRET }) },",
      '  integrations install acme-crm --name <name>',
    ])
      expect(lines).toContain(line)
  })

  it('names a folder that begins with a dot as one below this folder', async () => {
    await mkdir('.data', { recursive: true })
    const hidden = await mkdtemp(join('.data', 'make-provider-'))
    try {
      const { out } = await make('acme', '--dir', hidden)
      expect(out).toContain(`import { AcmeProvider } from './${hidden}/acme.js'`)
    } finally {
      await rm(hidden, { recursive: true, force: true })
    }
  })

  it.each([
    [['--with', 'sync'], ['sync']],
    [
      ['--with', 'webhooks,sync,webhooks'],
      ['sync', 'webhooks'],
    ],
    [
      ['--with', 'identity', '--with', 'oauth'],
      ['oauth', 'identity'],
    ],
    [['--with', 'none'], []],
  ])('with %j is one with %j', async (words, parts) => {
    expect((await make('acme', ...words, '--json')).json()).toMatchObject({ with: parts })
  })

  it.each([
    ['sync', 'syncIncremental('],
    ['writes', 'addItem('],
    ['webhooks', 'readonly signature: SignatureScheme'],
    ['oauth', 'extends OAuth2Provider'],
    ['health', 'healthCheck('],
    ['identity', 'authenticatedUser('],
  ])('has with %s, and only then, %j', async (part, code) => {
    await make('with', '--with', part)
    const others = PARTS.filter((other) => other !== part)
    await make('without', '--with', others.join(','))
    expect(await read('with.ts')).toContain(code)
    expect(await read('without.ts')).not.toContain(code)
  })
})

describe('--like', () => {
  it('begins with the webhooks of a door of the catalogue, and says what data can not', async () => {
    const { exitCode, json } = await make('acme', '--like', 'xero', '--with', 'none', '--json')
    expect(exitCode).toBe(0)
    expect(json()).toMatchObject({ with: ['webhooks'] })
    const text = await read('acme.ts')
    expect(text).toContain("header: 'x-xero-signature',")
    expect(text).toContain('badSignature: { status: 401 },')
    expect(text).toContain("const events = valueAt(request.json(), 'events')")
    expect(text).toContain('https://developer.xero.com/documentation/webhooks/configuring-your-server')
  })

  it.each([
    ['slack', 'return repeated === null ? null : { json: { challenge: repeated } }'],
    ['zoom', "const encryptedToken = createHmac('sha256', secret).update(plainToken).digest('hex')"],
    ['meta', "query.get('hub.verify_token') === token"],
    ['asana', "{ headers: { 'x-hook-secret': storeSecret }, storeSecret }"],
    ['notion', "const storeSecret = textAt(request.json(), 'verification_token')"],
    ['okta', '{ json: { verification: repeated } }'],
    ['trello', "methods: ['HEAD', 'POST'],"],
    ['azure-event-grid', "headers: { 'webhook-allowed-origin': origin, allow: 'OPTIONS, POST' }"],
    ['adyen', "accepted: { text: '[accepted]' },"],
    ['sendgrid', "id: textAt(event, 'sg_event_id'),"],
    // Before the signature no caller may be believed, and only the owner of a topic can say that it is theirs.
    ['amazon-sns', '// TODO: before the first delivery: a delivery whose SubscribeURL must be visited'],
  ])('%s writes its answers as code', async (like, code) => {
    await make('acme', '--like', like, '--with', 'none')
    expect(await read('acme.ts')).toContain(code)
  })

  it('begins with HMAC over time and body for a provider that is none of them', async () => {
    expect((await make('acme-crm', '--like', 'timestamped-hmac', '--with', 'none')).exitCode).toBe(0)
    expect(await read('acme-crm.ts')).toContain(`  // TODO: how its deliveries are signed.
  readonly signature: SignatureScheme = {
    scheme: 'hmac',
    hash: 'sha256',
    header: 'x-acme-crm-signature',
    encoding: 'hex',
    timestamp: { header: 'x-acme-crm-timestamp' },
    signed: [signedPart.timestamp, '.', signedPart.body],
  }

  webhookDeliveryId(request: WebhookRequest): string | null {
    return textAt(request.json(), 'id')
  }
`)
  })

  it('takes headers, separator, encoding and tolerance for such a provider', async () => {
    const options = ['--signature-header', 'X-Sign', '--timestamp-header', 'x-at', '--separator', ':']
    const more = ['--encoding', 'base64', '--tolerance', '60']
    const { exitCode } = await make('acme', '--like', 'timestamped-hmac', '--with', 'none', ...options, ...more)
    expect(exitCode).toBe(0)
    expect(await read('acme.ts')).toContain(`
    header: 'x-sign',
    encoding: 'base64',
    timestamp: { header: 'x-at' },
    signed: [signedPart.timestamp, ':', signedPart.body],
    tolerance: 60,
  }`)
  })

  it.each([
    [['--separator', '.'], '--separator goes with --like timestamped-hmac, and --like was not given.'],
    [
      ['--like', 'slack', '--tolerance', '60', '--encoding', 'hex'],
      '--encoding and --tolerance go with --like timestamped-hmac, and --like slack was given.',
    ],
    [['--like', 'timestamped-hmac', '--signature-header', 'x y'], 'the name of a header is allowed'],
    [['--like', 'timestamped-hmac', '--tolerance', '0'], 'a whole number from 1 to 86400 is allowed'],
    [['--like', 'timestamped-hmac', '--encoding', 'utf8'], 'Allowed choices are hex, base64, base64url'],
  ])('refuses %j', async (words, said) => {
    const { exitCode, err } = await make('acme', ...words)
    expect(exitCode).toBe(1)
    expect(err).toContain(said)
    expect(await readdir(folder)).toEqual([])
  })

  it('is one of the doors, and nothing else', async () => {
    const { exitCode, err } = await make('acme', '--like', 'nobody')
    expect(exitCode).toBe(1)
    expect(err).toContain('shopify')
    expect(await readdir(folder)).toEqual([])
  })
})

describe('what it says to install', () => {
  it('is the vitest that this package is tested with: a later one may want another Node', async () => {
    const { devDependencies } = PackageJson.parse(JSON.parse(await readFile(PACKAGE_JSON, 'utf8')))
    const [, major] = /^\^(\d+)\./.exec(devDependencies.vitest) ?? []
    expect((await make('acme')).out).toContain(` vitest@${major}.0 `)
  })

  it.each([
    [['zod', '@electric-sql/pglite'], '  npm install durable-integrations && npm install --save-dev vitest@4.0'],
    [['durable-integrations', 'zod'], '  npm install --save-dev vitest@4.0 @electric-sql/pglite@0.5'],
    [['vitest', '@electric-sql/pglite'], '  npm install durable-integrations zod'],
  ])('leaves out what is installed: %j', async (names, line) => {
    for (const name of names) await install(name)
    expect((await make('acme')).out.split('\n')).toContain(line)
  })

  it('is nothing where everything is installed', async () => {
    for (const name of ['durable-integrations', 'zod', 'vitest', '@electric-sql/pglite']) await install(name)
    expect((await make('acme')).out).not.toContain('npm install')
  })

  async function install(name: string): Promise<void> {
    const installed = join(folder, 'node_modules', name)
    await mkdir(installed, { recursive: true })
    await writeFile(join(installed, 'package.json'), JSON.stringify({ name }))
  }
})

describe('the calls of what is written', () => {
  it.each(['sync,health', 'sync,health,oauth', 'health', 'identity,oauth'])(
    'with %s go below the path that the address of the API has',
    async (parts) => {
      await make('acme', '--with', parts)
      expect(await read('acme.ts')).toMatch(/new URL\(`\$\{this\.#api\}\$\{path\}`\)/)
    },
  )

  it.each(PARTS.filter((part) => part !== 'webhooks'))(
    'with %s go to the address that the constructor is given, for tests and for a sandbox',
    async (part) => {
      await make('acme', '--with', part)
      const text = await read('acme.ts')
      expect(text).toMatch(/constructor\((client: OAuth2Client, )?api = API_URL\)/)
      expect(text.match(/API_URL/g), 'its declaration, and the default').toHaveLength(2)
    },
  )

  it('have no address where there are none', async () => {
    await make('acme', '--with', 'webhooks')
    expect(await read('acme.ts')).not.toMatch(/API_URL|#api/)
  })

  it('say that a server may not decode what Basic encodes', async () => {
    await make('acme', '--with', 'oauth')
    expect(await read('acme.ts')).toMatch(
      /TODO: clientAuthentication\. .*\n.*clientAuthentication = 'client_secret_post'/,
    )
  })

  it('are named by their path: what is asked for is in the query, and beside the path in the row', async () => {
    await make('acme', '--with', 'sync')
    const text = await read('acme.ts')
    expect(text).toContain("read(integration, '/v1/items', ItemPage, { data, signal: session.signal })")
    expect(text).toContain('url.search = new URLSearchParams(options.data).toString()')
  })

  it('are not made without a token', async () => {
    await make('acme', '--with', 'sync,oauth')
    expect(await read('acme.ts')).toContain('if (token === null) throw new ReauthRequiredException(integration.id,')
  })
})

describe('refused', () => {
  it.each(['', 'Acme', '42', '-acme', '_acme', 'acme.crm', '../acme', 'a/b', 'acme crm', 'ä', 'a'.repeat(65)])(
    'is the identifier %j, with what is allowed',
    async (identifier) => {
      const { exitCode, out, err } = await make('--dir', folder, '--', identifier)
      expect({ exitCode, out }).toEqual({ exitCode: 1, out: '' })
      expect(err).toContain(
        `an identifier is 1 to 64 of a-z, 0-9, "_" and "-", and not all digits, "${identifier}" was`,
      )
      expect(await readdir(folder)).toEqual([])
    },
  )

  it.each(['mail', '', 'sync,', 'sync, webhooks', 'none,sync', 'SYNC'])('is --with %j', async (parts) => {
    const { exitCode, err } = await make('acme', '--with', parts)
    expect(exitCode).toBe(1)
    expect(err).toContain(
      `any of sync, writes, webhooks, oauth, health, identity with commas between, or none, are allowed, "${parts}" was given`,
    )
    expect(await readdir(folder)).toEqual([])
  })

  it.each([
    ['the provider', ['acme.ts']],
    ['its tests', ['acme.test.ts']],
    ['both', ['acme.ts', 'acme.test.ts']],
  ])('is to overwrite %s', async (_, names) => {
    for (const name of names) await writeFile(join(folder, name), 'mine')
    const { exitCode, json } = await make('acme', '--json')
    expect(exitCode).toBe(1)
    const paths = names.map((name) => join(folder, name)).join(' and ')
    expect(json()).toEqual({
      error: { code: 'file_exists', message: expect.stringMatching(new RegExp(`^${paths} (is|are) there .*--force`)) },
    })
    expect((await readdir(folder)).sort()).toEqual([...names].sort())
    for (const name of names) expect(await read(name)).toBe('mine')
  })

  it('is to write through a link that leads nowhere', async () => {
    await symlink(join(folder, 'elsewhere'), join(folder, 'acme.ts'))
    expect((await make('acme', '--json')).json()).toMatchObject({ error: { code: 'file_exists' } })
    expect(await readdir(folder)).toEqual(['acme.ts'])
  })

  it.each([
    ['is a file', 'taken'],
    ['lies below a file', 'taken/providers'],
    ['has a name too long for a disk', 'n'.repeat(300)],
  ])('is a folder that %s, with what the system says', async (_, name) => {
    await writeFile(join(folder, 'taken'), 'mine')
    const dir = join(folder, name)
    const { exitCode, json } = await make('acme', '--dir', dir, '--json')
    expect(exitCode).toBe(1)
    expect(json()).toEqual({
      error: {
        code: 'not_writable',
        message: expect.stringMatching(/^The provider can't be written to .+: E[A-Z]+: .+\. Give another by --dir\.$/),
      },
    })
    expect(await readdir(folder)).toEqual(['taken'])
    expect(await read('taken')).toBe('mine')
  })
})

describe('--force', () => {
  it('overwrites both files', async () => {
    for (const name of ['acme.ts', 'acme.test.ts']) await writeFile(join(folder, name), 'mine')
    expect((await make('acme', '--force')).exitCode).toBe(0)
    expect(await read('acme.ts')).toContain('export class AcmeProvider')
    expect(await read('acme.test.ts')).toContain('describeProvider(')
  })

  it('leaves no half when the second file cannot be written', async () => {
    await mkdir(join(folder, 'acme.test.ts'))
    const { exitCode, json } = await make('acme', '--force', '--json')
    expect(exitCode).toBe(1)
    expect(json()).toMatchObject({ error: { code: 'not_writable', message: expect.stringContaining('EISDIR') } })
    expect(await readdir(folder)).toEqual(['acme.test.ts'])
  })

  it('leaves the first file as it was when the second cannot be written', async () => {
    await writeFile(join(folder, 'acme.ts'), 'mine')
    await mkdir(join(folder, 'acme.test.ts'))
    const { exitCode, json } = await make('acme', '--force', '--json')
    expect(exitCode).toBe(1)
    expect(json()).toMatchObject({ error: { code: 'not_writable' } })
    expect(await read('acme.ts')).toBe('mine')
    expect((await readdir(folder)).sort()).toEqual(['acme.test.ts', 'acme.ts'])
  })

  it('replaces a link, and leaves what it leads to alone', async () => {
    await writeFile(join(folder, 'elsewhere'), 'mine')
    for (const name of ['acme.ts', 'acme.test.ts']) await symlink(join(folder, 'elsewhere'), join(folder, name))
    expect((await make('acme', '--force')).exitCode).toBe(0)
    expect(await read('elsewhere')).toBe('mine')
    expect(await read('acme.ts')).toContain('export class AcmeProvider')
    expect((await lstat(join(folder, 'acme.ts'))).isSymbolicLink()).toBe(false)
  })
})
