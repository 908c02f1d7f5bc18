/**
 * Adds to package-lock.json the optional platform packages that a lock written behind an incomplete registry lacks.
 *
 * `npm ci` refuses a lock that does not name every optional dependency. Where a registry has no binary for some platform,
 * `npm install` leaves its entry out, and nobody can install from that lock any more. What is added is exactly the version
 * that its parent pins; without an `integrity`, which only the registry knows.
 *
 *   npx tsx scripts/complete-lock.ts
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { z } from 'zod'

const LOCK = 'package-lock.json'
const SYSTEMS = ['android', 'darwin', 'linux', 'win32', 'freebsd', 'openharmony']
const PROCESSORS = ['arm64', 'arm', 'x64', 'ia32', 'ppc64', 's390x', 'riscv64', 'loong64']

const Entry = z.looseObject({
  optionalDependencies: z.record(z.string(), z.string()).optional(),
  dev: z.boolean().optional(),
  license: z.string().optional(),
  engines: z.unknown().optional(),
})
const Lock = z.looseObject({ packages: z.record(z.string(), Entry) })

const lock = Lock.parse(JSON.parse(readFileSync(LOCK, 'utf8')))
const added: string[] = []
for (const [path, entry] of Object.entries(lock.packages))
  for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
    if (isInstalled(path, name)) continue
    const platform = platformOf(name)
    if (platform === null)
      throw new Error(`${path} wants ${name}@${version}, whose name says no platform: add it by hand.`)
    lock.packages[`node_modules/${name}`] = {
      version,
      ...(entry.dev === true ? { dev: true } : {}),
      ...platform,
      ...(entry.license === undefined ? {} : { license: entry.license }),
      optional: true,
      ...(entry.engines === undefined ? {} : { engines: entry.engines }),
    }
    added.push(`${name}@${version}`)
  }
if (added.length > 0) {
  lock.packages = Object.fromEntries(Object.entries(lock.packages).sort(([a], [b]) => a.localeCompare(b, 'en')))
  writeFileSync(LOCK, `${JSON.stringify(lock, null, 2)}\n`)
}
console.log(added.length === 0 ? 'The lock is complete.' : `Added:\n${added.join('\n')}`)

/** As Node looks packages up: beside the parent, then ever further out. */
function isInstalled(parent: string, name: string): boolean {
  for (let base = parent; base !== ''; base = base.slice(0, Math.max(0, base.lastIndexOf('/node_modules/'))))
    if (lock.packages[`${base}/node_modules/${name}`] !== undefined) return true
  return lock.packages[`node_modules/${name}`] !== undefined
}

function platformOf(name: string): { os: string[]; cpu: string[]; libc?: string[] } | null {
  const parts = name.split('/').at(-1)?.split('-') ?? []
  const os = SYSTEMS.find((system) => parts.some((part) => part.startsWith(system)))
  const cpu = PROCESSORS.find((processor) => parts.includes(processor))
  if (os === undefined || cpu === undefined) return null
  if (os !== 'linux') return { os: [os], cpu: [cpu] }
  const libc = parts.some((part) => part.startsWith('musl'))
    ? ['musl']
    : parts.some((part) => part.startsWith('gnu'))
      ? ['glibc']
      : []
  return { os: [os], cpu: [cpu], ...(libc.length === 0 ? {} : { libc }) }
}
