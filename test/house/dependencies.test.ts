import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }

const page = readFileSync(new URL('../../docs/dependencies.md', import.meta.url), 'utf8')

describe('docs/dependencies.md', () => {
  it.each([
    ['Installed with the package', packageJson.dependencies],
    ['Installed by the hosts that use them', packageJson.peerDependencies],
    ['In development only', packageJson.devDependencies],
  ])('%s: names every package with a reason, and none that is gone', (title, packages) => {
    const section = page.split('\n## ').find((text) => text.startsWith(title)) ?? ''
    const rows = [...section.matchAll(/^\| `([^`]+)` \| ([^|]+) \|/gm)]
    expect(rows.map(([, name]) => name)).toEqual(Object.keys(packages))
    for (const [, name, reason] of rows) expect(reason?.trim(), name).not.toBe('')
  })

  it('marks what an adapter takes beside as optional: npm leaves it to the host', () => {
    expect(Object.keys(packageJson.peerDependenciesMeta)).toEqual(Object.keys(packageJson.peerDependencies))
    expect(Object.values(packageJson.peerDependenciesMeta)).toSatisfy((all: { optional: boolean }[]) =>
      all.every(({ optional }) => optional),
    )
  })

  // Two copies of drizzle-orm have types that do not fit.
  it('has docs/using-it.md name the versions of Drizzle and postgres.js that this package has', () => {
    const usingIt = readFileSync(new URL('../../docs/using-it.md', import.meta.url), 'utf8')
    const ranges: Record<string, string> = { ...packageJson.dependencies, ...packageJson.devDependencies }
    for (const name of ['drizzle-orm', 'postgres', 'drizzle-kit'])
      expect(usingIt).toContain(` ${name}@${/^\^(0\.\d+|\d+)/.exec(String(ranges[name]))?.[1]}`)
  })

  // With the next major of a peer npm would end with ERESOLVE.
  it('has each page that installs a peer name the version that its range begins with', () => {
    const root = new URL('../../', import.meta.url)
    const docs = readdirSync(new URL('docs/', root), { recursive: true, encoding: 'utf8' })
    const pages = ['README.md', ...docs.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`)]
    const words = pages.flatMap((path) => {
      const installed = readFileSync(new URL(path, root), 'utf8').match(/\bnpm\s+install [^`\n]*/g) ?? []
      return installed.flatMap((line) => line.split(/\s+/))
    })
    const peers = Object.entries(packageJson.peerDependencies)
    const named = words.filter((word) => peers.some(([name]) => word === name || word.startsWith(`${name}@`)))
    const versions = peers.map(([name, range]) => `${name}@${/^\^(0\.\d+|\d+)/.exec(range)?.[1]}`)
    expect([...new Set(named)].sort()).toEqual(versions.sort())
  })
})
