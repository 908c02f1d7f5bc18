/** examples/systemd against the configuration table, the programs that there are, and what docs/deploying.md says of them. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FOLDER = join(ROOT, 'examples/systemd')
const PAGE = readFileSync(join(ROOT, 'docs/deploying.md'), 'utf8')
const CONFIGURATION = readFileSync(join(ROOT, 'docs/configuration.md'), 'utf8')
const UNITS = readdirSync(FOLDER).filter((name) => name.endsWith('.service'))

/** `[Section]` and `Key=value` lines: https://www.freedesktop.org/software/systemd/man/latest/systemd.syntax.html */
function readUnit(name: string): ReadonlyMap<string, string> {
  const entries = new Map<string, string>()
  let section = ''
  for (const line of readFileSync(join(FOLDER, name), 'utf8').split('\n')) {
    if (line === '' || line.startsWith('#')) continue
    const [, head] = /^\[(\w+)\]$/.exec(line) ?? []
    if (head !== undefined) {
      section = head
      continue
    }
    const [, key, value] = /^(\w+)=(.+)$/.exec(line) ?? expect.unreachable(line)
    expect(entries.has(`${section}.${key}`), `${name}: ${key} twice`).toBe(false)
    entries.set(`${section}.${key}`, String(value))
  }
  return entries
}

const variables = (text: string): Record<string, string> =>
  Object.fromEntries([...text.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [String(name), String(value)]))
const given = variables(readFileSync(join(FOLDER, 'env.example'), 'utf8'))

describe('the units', () => {
  it('are those that the page names', () => {
    expect(UNITS).toEqual(['integrations-api@.service', 'integrations-migrate.service', 'integrations-worker@.service'])
    for (const name of [...UNITS, 'env.example']) expect(PAGE).toContain(`\`${name}\``)
  })

  it.each(UNITS)('%s runs a program of the package, as a user of its own, with the file of variables', (name) => {
    const unit = readUnit(name)
    const [node, program = ''] = unit.get('Service.ExecStart')?.split(' ') ?? []
    expect(node).toBe('/usr/bin/node')
    const [, source] = /^node_modules\/durable-integrations\/dist\/(bin\/[\w-]+)\.js$/.exec(program) ?? []
    expect(existsSync(join(ROOT, `src/${source}.ts`)), program).toBe(true)
    expect(unit.get('Service.User')).toBe('integrations')
    expect(unit.get('Service.WorkingDirectory')).toBe('/srv/my-host')
    expect(unit.get('Service.EnvironmentFile')).toBe('/etc/integrations/env')
    // Ordered, and not bound: what serves stays up while the tables are brought up to date.
    if (name.includes('@')) expect(unit.get('Unit.After')).toContain('integrations-migrate.service')
  })

  it.each([
    ['integrations-api@.service', Number(given.API_DRAIN_SECONDS) + 25],
    ['integrations-worker@.service', 60],
  ])('%s is started again whenever it ends, and killed after %i s at the earliest', (name, seconds) => {
    const unit = readUnit(name)
    expect(unit.get('Service.Restart')).toBe('always')
    expect(unit.get('Unit.StartLimitIntervalSec')).toBe('0')
    expect(Number(unit.get('Service.TimeoutStopSec'))).toBe(seconds)
    expect(unit.get('Install.WantedBy')).toBe('multi-user.target')
  })

  it('take their port from their name', () => {
    expect(readUnit('integrations-api@.service').get('Service.Environment')).toBe('PORT=%i')
    expect(readUnit('integrations-worker@.service').get('Service.Environment')).toBe('INTEGRATIONS__METRICS__PORT=%i')
    expect(CONFIGURATION).toContain('| `metrics.port` |')
  })
})

describe('the file of variables', () => {
  it('has no variable that nothing reads', () => {
    const names = Object.keys(given).filter((name) => !['NODE_ENV', 'UV_THREADPOOL_SIZE'].includes(name))
    expect(names.length).toBeGreaterThan(6)
    for (const name of names) expect(CONFIGURATION).toContain(`| \`${name}\` |`)
  })
})
