/** What the package.json of this package says. */
import { readFileSync } from 'node:fs'

interface Manifest {
  readonly version: string
  readonly peerDependencies: Readonly<Record<string, string>>
}

export function packageVersion(): string {
  return manifest().version
}

/** The versions of an optional peer that fit; null: the package is no peer. */
export function peerRange(name: string): string | null {
  const { peerDependencies } = manifest()
  return Object.hasOwn(peerDependencies, name) ? (peerDependencies[name] ?? null) : null
}

/** As far from here in src/ as in dist/. */
function manifest(): Manifest {
  return JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as Manifest
}
