import { readFileSync } from 'node:fs'
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
})
