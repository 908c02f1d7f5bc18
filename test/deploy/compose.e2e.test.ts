/** docker-compose.yml, as the library of Docker Compose resolves it. What its steps do is tested in image.long.test.ts. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseEnv } from 'node:util'
import { beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { run } from '../../dev/local-process.ts'
import { buildContext } from '../../scripts/image/build-context.ts'
import { parseDockerfile, wordsOf } from '../../scripts/image/dockerfile.ts'
import { loadConfig } from '../support/load-config.ts'
import type { ComposeFile } from './compose-file.ts'
import { graceSecondsOf, resolveCompose, serviceOf } from './compose-file.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const EXAMPLE = readFileSync(join(ROOT, '.env.example'), 'utf8')
const OURS = ['migrate', 'host-tables', 'api', 'worker']
/** Of our image, but no process of the host's: it gets no key, no database and no configuration. */
const GUARD = 'temporal-ui-guard'

/** What stands behind `node` in a command of ours must be in the image: compiled from a source, or copied as it is. */
function isInImage(path: string): boolean {
  const final = parseDockerfile(readFileSync(join(ROOT, 'Dockerfile'), 'utf8')).at(-1)
  const copied = (final?.instructions ?? [])
    .filter(({ word }) => word === 'COPY')
    .flatMap(({ text }) => {
      const { flags, words } = wordsOf(text)
      return words.slice(0, -1).map((from) => ({ from, isBuilt: flags.has('from') }))
    })
  if (path.startsWith('dist/'))
    return (
      copied.some(({ from, isBuilt }) => isBuilt && from.endsWith('/dist')) &&
      existsSync(join(ROOT, path.replace(/^dist\//, 'src/').replace(/\.js$/, '.ts')))
    )
  return (
    copied.some(({ from, isBuilt }) => !isBuilt && path.startsWith(`${from}/`)) && buildContext(ROOT).includes(path)
  )
}

describe('docker-compose.yml', () => {
  let file: ComposeFile
  beforeAll(async () => {
    file = await resolveCompose(EXAMPLE)
  }, 120_000)

  it('resolves with what .env.example says', () => {
    expect(Object.keys(file.services).sort()).toEqual(
      ['postgres', 'temporal', 'temporal-namespace', 'temporal-schema', 'temporal-ui', GUARD, ...OURS].sort(),
    )
    expect(file.secrets['encryption-keys']?.file).toMatch(/\/\.keys\/encryption-keys$/)
  })

  // The key of `npm start` lies in .data, and that folder is deleted to begin with nothing.
  it.each(['docs/deploying.md', '.env.example'])('takes the key file that %s makes once', async (page) => {
    const folder = await mkdtemp(join(tmpdir(), 'key-file-'))
    try {
      const text = readFileSync(join(ROOT, page), 'utf8')
      const [, makesFolder, makesKey] = /(mkdir -p \.keys)(?:; |\n)(.* > \.keys\/encryption-keys)$/m.exec(text) ?? []
      const made = async (): Promise<string> => {
        const { code, output } = await run('/bin/sh', ['-c', `${makesFolder}\n${makesKey}`], {
          cwd: folder,
          seconds: 30,
        })
        expect({ code, output }).toEqual({ code: 0, output: '' })
        return readFileSync(join(folder, '.keys/encryption-keys'), 'utf8')
      }
      const first = await made()
      expect(first).toMatch(/^k1:[\w+/]{43}=\n$/)
      expect(await made()).toBe(first)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  it.each([
    ['there is no .env', null],
    ['.env does not name the key file', EXAMPLE.replace(/^INTEGRATIONS_ENCRYPTION_KEYS_FILE=.*$/m, '')],
    ['.env names it with nothing', 'INTEGRATIONS_ENCRYPTION_KEYS_FILE=\n'],
  ])('says that the encryption key is missing when %s', async (_, env) => {
    await expect(resolveCompose(env)).rejects.toThrow(
      /INTEGRATIONS_ENCRYPTION_KEYS_FILE is missing a value: name the key file in \.env/,
    )
  })

  it('runs an image of the host, as docs/deploying.md says', async () => {
    const page = readFileSync(join(ROOT, 'docs/deploying.md'), 'utf8')
    const [, override] = /docker-compose\.override\.yml[\s\S]*?```yaml\n([\s\S]*?)```/.exec(page) ?? []
    const module = 'host/integrations.config.ts'
    expect(page).toContain(`\`INTEGRATIONS_CONFIG=${module}\``)
    const env = EXAMPLE.replace(/^INTEGRATIONS_CONFIG=.*$/m, `INTEGRATIONS_CONFIG=${module}`)
    const own = await resolveCompose(env, override)
    for (const name of OURS) {
      const { command, environment, image } = serviceOf(own, name)
      expect(image, name).toBe('my-host:local')
      expect(command, name).toEqual(serviceOf(file, name).command)
      expect(environment.INTEGRATIONS_CONFIG, name).toBe(module)
    }
    expect(serviceOf(own, 'migrate').build?.context).toMatch(/\/my-host$/)
    expect(serviceOf(own, GUARD)).toEqual(serviceOf(file, GUARD))
  })

  it('pins every image to a whole version, or it is ours', () => {
    for (const [name, { image }] of Object.entries(file.services))
      if ([...OURS, GUARD].includes(name)) expect(image, name).toBe('durable-integrations:local')
      else expect(image, name).toMatch(/^[\w/-]+:\d+\.\d+(\.\d+)?$/)
    const bases = parseDockerfile(readFileSync(join(ROOT, 'Dockerfile'), 'utf8')).map(({ from }) => from)
    for (const base of bases) expect(base).toMatch(/^node:\d+\.\d+\.\d+-bookworm-slim$/)
  })

  it('builds our image once, before all that it runs, and asks no registry for it', () => {
    const builders = Object.entries(file.services).filter(([, { build }]) => build !== undefined)
    expect(builders.map(([name, { build }]) => [name, build?.dockerfile])).toEqual([['migrate', 'Dockerfile']])
    for (const name of [...OURS, GUARD]) expect(serviceOf(file, name).pull_policy, name).toBe('never')
    // `docker compose up worker` builds what the worker depends on.
    for (const name of [...OURS, GUARD]) expect([name, ...neededBy(name)], name).toContain('migrate')
    function neededBy(name: string): string[] {
      return Object.keys(serviceOf(file, name).depends_on).flatMap((on) => [on, ...neededBy(on)])
    }
  })

  it("gives Postgres connections for Temporal's pools and for several processes of ours", () => {
    const [, max] = /max_connections=(\d+)/.exec(serviceOf(file, 'postgres').command?.join(' ') ?? '') ?? []
    // SQL_MAX_CONNS and SQL_VIS_MAX_CONNS of the server's template, for each of its four services; config/docker.yaml.
    const temporal = 4 * (20 + 10)
    // Unless the host says another pool.max; docs/behaviour/workers.md, "Slots, pollers, cache".
    const ofOurs = 2 * 10 + 9
    const page = readFileSync(join(ROOT, 'docs/deploying.md'), 'utf8')
    const [, allowed, processes, ofHost] =
      /allows (\d+): Temporal and (\d+) processes of ours, each with a pool of (\d+)/.exec(page) ?? []
    expect(allowed).toBe(max)
    // Postgres keeps three for superusers: superuser_reserved_connections.
    expect(Number(max) - 3).toBeGreaterThanOrEqual(temporal + Number(processes) * (ofOurs + Number(ofHost)))
    const source = readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8')
    expect(source).toContain(`A process of ours takes up to ${ofOurs},`)
  })

  it('does not take the server that fills a fresh volume for Postgres', () => {
    // That one listens on the Unix socket only: docker-entrypoint.sh of the image, docker_temp_server_start.
    expect(serviceOf(file, 'postgres').healthcheck?.test.join(' ')).toMatch(/^CMD pg_isready --host 127\.0\.0\.1 /)
  })

  it('opens every port on loopback only', () => {
    const ports = Object.values(file.services).flatMap(({ ports }) => ports)
    expect(ports.length).toBeGreaterThan(3)
    for (const port of ports) expect(port.host_ip).toBe('127.0.0.1')
  })

  it('lets several APIs share a range of ports', async () => {
    const scaled = await resolveCompose(EXAMPLE.replace(/^API_PORTS=.*$/m, 'API_PORTS=3000-3001'))
    expect(serviceOf(scaled, 'api').ports).toMatchObject([
      { host_ip: '127.0.0.1', published: '3000-3001', target: 3000 },
    ])
  })

  it('names only programs and a host that are in the image', () => {
    const scripts = [...OURS, GUARD]
      .flatMap((name) => serviceOf(file, name).command ?? [])
      .filter((word) => /\.(js|ts)$/.test(word))
    expect(scripts).toEqual([
      'dist/bin/integrations.js',
      'dist/bin/api.js',
      'dist/bin/worker.js',
      'dist/bin/temporal-ui-guard.js',
    ])
    const hosts = OURS.map((name) => serviceOf(file, name).environment.INTEGRATIONS_CONFIG)
    for (const path of [...scripts, ...hosts]) expect(isInImage(String(path)), String(path)).toBe(true)
    expect(isInImage('dist/bin/nobody.js')).toBe(false)
    expect(isInImage('examples/helpdesk/integrations.config.ts')).toBe(false)
  })

  it('gives our processes an environment that they accept', async () => {
    for (const name of OURS) {
      const { environment, secrets } = serviceOf(file, name)
      expect(secrets.map(({ target }) => target)).toEqual([environment.INTEGRATIONS_ENCRYPTION_KEYS_FILE])
      expect(environment.INTEGRATIONS_ENCRYPTION_KEYS).toBe('')
      const values = Object.entries(environment).map(([key, value]) => [key, value ?? undefined])
      expect(loadConfig({ environment: Object.fromEntries(values) }).sources['metrics.port']).toBe('environment')
      expect(environment.NODE_ENV).toBe('production')
    }
  })

  it('starts each part when what it needs is there', () => {
    const needs = (name: string) =>
      Object.fromEntries(Object.entries(serviceOf(file, name).depends_on).map(([on, { condition }]) => [on, condition]))
    expect(needs('temporal-schema')).toEqual({ postgres: 'service_healthy' })
    expect(needs('temporal')).toEqual({ 'temporal-schema': 'service_completed_successfully' })
    expect(needs('migrate')).toEqual({ postgres: 'service_healthy' })
    for (const name of ['api', 'worker'])
      expect(needs(name)).toEqual({
        'host-tables': 'service_completed_successfully',
        'temporal-namespace': 'service_completed_successfully',
      })
    // What others wait for must be able to become healthy; what is waited for to its end is tried again until it has ended well.
    for (const { depends_on } of Object.values(file.services))
      for (const [on, { condition }] of Object.entries(depends_on)) {
        if (condition === 'service_healthy') expect(serviceOf(file, on).healthcheck, on).toBeDefined()
        // The network that the UI is in: its guard must be there, no more.
        else if (condition === 'service_started') expect(on).toBe(GUARD)
        else expect(serviceOf(file, on).restart, on).toBe('on-failure:5')
      }
  })

  it('tries again to make the namespace: the server opens its port before it takes one', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'namespace-'))
    try {
      const tries = join(folder, 'tries')
      // Knows no namespace, and makes one at the third try.
      const script = `case "$*" in *describe*) exit 1 ;; esac\necho "$*" >> ${tries}\n[ "$(wc -l < ${tries})" -ge 3 ]\n`
      await writeFile(join(folder, 'temporal'), `#!/bin/sh\n${script}`, { mode: 0o755 })
      const { entrypoint, command, environment } = serviceOf(file, 'temporal-namespace')
      const [program = '', ...args] = [...(entrypoint ?? []), ...(command ?? [])]
      const env = { TEMPORAL_NAMESPACE: String(environment.TEMPORAL_NAMESPACE), PATH: `${folder}:${process.env.PATH}` }
      expect(await run(program, args, { env, seconds: 60 })).toMatchObject({ code: 0 })
      const made = 'operator namespace create --namespace default --retention 72h\n'
      expect(readFileSync(tries, 'utf8')).toBe(made.repeat(3))
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  it('lets nothing of ours write to the image, and waits longer for its end than it takes', () => {
    for (const name of [...OURS, GUARD]) expect(serviceOf(file, name).read_only, name).toBe(true)
    const { config } = loadConfig({ environment: {} })
    // docs/behaviour/workers.md, "The end of a worker" and "The end of an API process".
    expect(graceSecondsOf(file, 'worker')).toBe(config.worker.shutdown_grace + 50)
    const drainSeconds = Number(serviceOf(file, 'api').environment.API_DRAIN_SECONDS)
    expect(drainSeconds).toBe(5)
    const [, longestDrain] = /Up to (\d+)\n# with docker-compose\.yml/.exec(EXAMPLE) ?? []
    // As an API behind Kubernetes has it, at least: examples/kubernetes/api.yaml.
    expect(Number(longestDrain)).toBeGreaterThanOrEqual(15)
    expect(graceSecondsOf(file, 'api')).toBeGreaterThanOrEqual(Number(longestDrain) + 25)
  })

  it("opens Temporal's UI through its guard only, which gets nothing of the host's", () => {
    const [ui, guard] = [serviceOf(file, 'temporal-ui'), serviceOf(file, GUARD)]
    expect([ui.network_mode, ui.ports]).toEqual([`service:${GUARD}`, []])
    expect(guard.ports).toMatchObject([{ host_ip: '127.0.0.1', published: '8233', target: 8080 }])
    expect(guard.command?.slice(2)).toEqual(['--ui', '127.0.0.1:8081', '--at', '0.0.0.0:8080'])
    expect([guard.environment, guard.secrets]).toEqual([{}, []])
    // Where the image's own template lies, whose place it takes: docker/start-ui-server.sh and server/config/config.go of ui-server.
    expect(ui.configs).toMatchObject([{ source: 'temporal-ui', target: '/home/ui-server/config/docker.yaml' }])
    expect(parse(file.configs['temporal-ui']?.content ?? '')).toEqual({
      temporalGrpcAddress: 'temporal:7233',
      host: '127.0.0.1',
      port: 8081,
      enableUi: true,
      defaultNamespace: 'default',
      cors: { cookieInsecure: true },
    })
  })

  it('turns fairness on and the HTTP API off, in a file as the server reads it', () => {
    const environment = serviceOf(file, 'temporal').environment
    expect(environment.DYNAMIC_CONFIG_FILE_PATH).toMatch(/^\/etc\/temporal\/config\/dynamicconfig\/.*\.yaml$/)
    // A list of values for each key, each with its constraints, if any: common/dynamicconfig/file_based_client.go.
    const dynamic: unknown = parse(file.configs['temporal-dynamic-config']?.content ?? '')
    expect(dynamic).toEqual({
      'matching.useNewMatcher': [{ value: true }],
      'matching.enableFairness': [{ value: true }],
      'history.transferProcessorMaxPollRPS': [{ value: 1000 }],
      'frontend.httpAllowedHosts': [{ value: ['nobody.invalid'] }],
    })
  })
})

describe('.env.example', () => {
  it('says every variable that docker-compose.yml asks for', () => {
    const text = readFileSync(join(ROOT, 'docker-compose.yml'), 'utf8')
    const asked = [...text.matchAll(/(?<!\$)\$\{(\w+)/g)].map(([, name]) => name)
    expect(asked.length).toBeGreaterThan(3)
    for (const name of asked) expect(Object.keys(parseEnv(EXAMPLE))).toContain(name)
  })

  it('holds no key', () => {
    expect(EXAMPLE).not.toMatch(/[A-Za-z0-9+/]{43}=/)
  })
})

describe('Dockerfile', () => {
  it("lets everybody read what comes from a checkout, which may be its owner's only", () => {
    const copies = parseDockerfile(readFileSync(join(ROOT, 'Dockerfile'), 'utf8'))
      .at(-1)
      ?.instructions.filter(({ word }) => word === 'COPY')
      .map(({ text }) => wordsOf(text).flags)
    const modes = copies?.filter((flags) => !flags.has('from')).map((flags) => flags.get('chmod'))
    expect(modes).toEqual(['755', '755', '755'])
  })
})

describe('.dockerignore', () => {
  it('lets a builder have what the Dockerfile copies, and no secret, no data and no test', () => {
    const context = buildContext(ROOT)
    const sent = new Set(context.map((path) => path.split('/')[0]))
    expect([...sent].sort()).toEqual(
      [
        '.npmrc',
        'LICENSE',
        'drizzle',
        'examples',
        'package-lock.json',
        'package.json',

        'src',
        'tsconfig.build.json',
        'tsconfig.json',
      ].sort(),
    )
    expect(context.filter((path) => path.startsWith('examples/') && !path.startsWith('examples/host/'))).toEqual([])
    expect(context.filter((path) => /(^|\/)(\.env|encryption-keys$|node_modules\/)|\.test\.ts$/.test(path))).toEqual([])
  })
})
