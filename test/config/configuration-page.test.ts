/** docs/configuration.md is what the code makes, and says what the reference table says. */
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { configurationPage } from '../../scripts/configuration-page.ts'
import { wrapped } from '../../scripts/wrapped.ts'
import { OPTIONS } from '../../src/config/option-registry.ts'
import { CONFIG_KEYS, environmentName } from '../../src/config/schema.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const page = readFileSync(`${root}docs/configuration.md`, 'utf8')

interface PageRow {
  readonly type: string
  readonly fallback: string
  readonly unit: string
  readonly variable: string
}

/** Rows of the sections of keys: seven columns. */
function rowsOfKeys(): Map<string, PageRow> {
  const rows = new Map<string, PageRow>()
  for (const line of page.split('\n')) {
    const cells = line.split(/(?<!\\)\|/).map((cell) => cell.trim())
    const [, name = '', type = '', fallback = '', , unit = '', , variable = ''] = cells
    if (cells.length === 9 && name.startsWith('`'))
      rows.set(name.replaceAll('`', ''), { type, fallback, unit, variable: variable.replaceAll('`', '') })
  }
  return rows
}

function limitsTable(): [key: string, type: string, fallback: string][] {
  const table = readFileSync(new URL('./limits-table.md', import.meta.url), 'utf8')
  return [...table.matchAll(/^\| `([\w.]+)` +\| (\S+) +\| (.+?) +\| .*\|$/gm)].map(
    ([, key = '', type = '', fallback = '']) => [key, type, fallback],
  )
}

describe('docs/configuration.md', () => {
  it('is what the generator makes: run `npm run docs` after a change', () => {
    expect(page).toBe(wrapped(configurationPage()))
  })

  it('has all 62 rows of the reference table', () => {
    expect(limitsTable()).toHaveLength(62)
  })

  it('has each row of it with its type and default', () => {
    const rows = rowsOfKeys()
    for (const [key, type, fallback] of limitsTable()) {
      // The table writes strings in backticks and numbers bare, and an empty map as an empty list.
      const wanted = fallback.startsWith('`') ? fallback : `\`${fallback.replaceAll('`', '"')}\``
      expect(rows.get(key), key).toMatchObject({ type, fallback: key === 'sync.queues' ? '`{}`' : wanted })
    }
  })

  it('has every key, with its unit and its variable', () => {
    const rows = rowsOfKeys()
    expect([...rows.keys()]).toEqual([...CONFIG_KEYS.keys()])
    for (const [key, { unit }] of CONFIG_KEYS)
      expect(rows.get(key)).toMatchObject({ unit: unit ?? '', variable: environmentName(key) })
  })

  it('has each option', () => {
    expect(Object.keys(OPTIONS).filter((option) => !page.includes(`\n| \`${option}\` | `))).toEqual([])
  })

  it('has every variable that a process of ours reads', () => {
    // Those of the machine (PATH, proxies, folders), and those of `npm start` alone, are none of ours.
    const foreign = new Set(['PATH', 'HOME', 'XDG_CACHE_HOME', 'HTTPS_PROXY', 'ALL_PROXY', 'HTTP_PROXY', 'CI', 'USER'])
    const reads = /(?:process\.env|environment|\benv)\.([A-Z][A-Z_]+)\b|\b(INTEGRATIONS_[A-Z]+(?:_[A-Z]+)*)\b/g
    const files = readdirSync(`${root}src`, { recursive: true, encoding: 'utf8' })
    const read = new Set<string>()
    for (const path of files.filter((path) => path.endsWith('.ts')))
      for (const [, name, ours = ''] of readFileSync(`${root}src/${path}`, 'utf8').matchAll(reads))
        if (!foreign.has(name ?? ours)) read.add(name ?? ours)
    for (const name of ['DATABASE_URL', 'INTEGRATIONS_BASE_URL', 'LOG_STREAM']) expect(read).toContain(name)
    expect([...read].filter((name) => !page.includes(`\`${name}\``))).toEqual([])
  })
})
