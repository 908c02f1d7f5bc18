import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

/** What git ignores, and git itself. */
const NOT_OURS = new Set(['node_modules', 'dist', '.data', '.keys', '.git', 'coverage', '.env'])

const BINARY = new Set(['.png', '.jpg', '.gif', '.ico', '.woff2', '.gz', '.bin'])

interface TextFile {
  path: string
  text: string
}

/** What we read of an entry of package-lock.json. */
interface LockedPackage {
  resolved?: string
  integrity?: string
  hasInstallScript?: boolean
  dev?: boolean
  optionalDependencies?: Record<string, string>
}

async function pathsIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true })
  const kept = entries.filter((entry) => !NOT_OURS.has(entry.name))
  const nested = await Promise.all(
    kept.map((entry) =>
      entry.isDirectory()
        ? pathsIn(join(folder, entry.name))
        : entry.isFile()
          ? [relative(root, join(folder, entry.name))]
          : [],
    ),
  )
  return nested.flat()
}

/** `path:line: text` of each line that matches, so that a failure can be clicked. */
function linesWith(files: TextFile[], pattern: RegExp): string[] {
  return files.flatMap(({ path, text }) =>
    text
      .split('\n')
      .flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim().slice(0, 160)}`] : [])),
  )
}

/** Mirrors that this machine was told to use. The public ones may be named. */
function mirrorHosts(): string[] {
  const publicHosts = new Set(['registry.npmjs.org', 'proxy.golang.org', 'sum.golang.org', 'pypi.org'])
  const settings = [
    'npm_config_registry',
    'NPM_CONFIG_REGISTRY',
    'GOPROXY',
    'PIP_INDEX_URL',
    'HTTPS_PROXY',
    'HTTP_PROXY',
  ]
  return settings
    .flatMap((name) => (process.env[name] ?? '').split(/[,|]/))
    .flatMap((url) => (URL.canParse(url) ? [new URL(url).hostname] : []))
    .filter((host) => !publicHosts.has(host) && !['localhost', '127.0.0.1', '[::1]'].includes(host))
}

describe('the repository', () => {
  let files: TextFile[]

  beforeAll(async () => {
    const paths = (await pathsIn(root)).filter((path) => !BINARY.has(extname(path)))
    files = await Promise.all(paths.map(async (path) => ({ path, text: await readFile(join(root, path), 'utf8') })))
  })

  const file = (path: string) => files.find((candidate) => candidate.path === path)?.text ?? ''

  it('names no path of the machine it was written on', () => {
    const machinePath = /(^|[\s'"`(=:])\/(work|root|Users\/\w+|home\/(?!node\b)\w+)\//
    expect(linesWith(files, machinePath)).toEqual([])
  })

  it('names no package mirror of the machine it was written on', () => {
    const found = mirrorHosts().flatMap((host) => linesWith(files, new RegExp(host.replaceAll('.', '[.]'))))
    expect(found).toEqual([])
  })

  it('locks each package by its content, not by where it was fetched', () => {
    const { packages } = JSON.parse(file('package-lock.json')) as { packages: Record<string, LockedPackage> }
    const installed = Object.entries(packages).filter(([path]) => path !== '')
    const fetchedFrom = installed.filter(([, locked]) => locked.resolved !== undefined)
    const unsealed = installed.filter(([, { integrity }]) => integrity === undefined)
    expect(fetchedFrom.map(([path]) => path)).toEqual([])
    expect(unsealed.map(([path]) => path)).toEqual([])
  })

  it('locks the platform packages of every platform: npm ci refuses a lock that knows only the platform it was written on', () => {
    const { packages } = JSON.parse(file('package-lock.json')) as { packages: Record<string, LockedPackage> }
    const locked = new Set(Object.keys(packages).map((path) => path.replace(/^.*node_modules[/]/, '')))
    const wanted = Object.values(packages).flatMap(({ optionalDependencies }) =>
      Object.keys(optionalDependencies ?? {}),
    )
    expect(wanted.filter((name) => !locked.has(name))).toEqual([])
  })

  it('decides for each package whether it may run a script when it is installed, and no package of production may', () => {
    const { packages } = JSON.parse(file('package-lock.json')) as { packages: Record<string, LockedPackage> }
    const { allowScripts } = JSON.parse(file('package.json')) as { allowScripts: Record<string, boolean> }
    const scripted = Object.entries(packages).filter(([, locked]) => locked.hasInstallScript === true)
    const named = scripted.map(([path, { dev }]) => [path.replace(/^.*node_modules[/]/, ''), dev === true] as const)
    expect(named.map(([name]) => name).sort()).toEqual(Object.keys(allowScripts).sort())
    expect(named.filter(([name, isDev]) => allowScripts[name] === true && !isDev)).toEqual([])
  })

  it('runs every test it has', () => {
    const tests = files.filter(({ path }) => /^test\/.*[.]ts$/.test(path))
    expect(linesWith(tests, /\b(it|test|describe)(\.\w+)*\.(only|skip|todo|skipIf|runIf|fails)\b/)).toEqual([])
  })

  it('shows hosts no pool that asks for array types: a connection that is lost meanwhile ends their process', () => {
    const shown = files.filter(({ path }) => /^(docs|examples)[/].*[.](md|ts)$/.test(path))
    expect(linesWith(shown, /\bpostgres\((?!.*\bfetch_types: false\b)/)).toEqual([])
  })

  it('has a source file behind every entry, and ships the compiled twin of it', () => {
    const { exports } = JSON.parse(file('package.json')) as { exports: Record<string, string | Record<string, string>> }
    for (const [name, entry] of Object.entries(exports)) {
      if (typeof entry === 'string') continue
      const source = entry['durable-source'] ?? ''
      const compiled = source.replace(/^[.]\/src\//, './dist/').replace(/[.]ts$/, '')
      expect(file(source.replace('./', '')), `${name} -> ${source}`).not.toBe('')
      expect(entry, name).toEqual({ 'durable-source': source, types: `${compiled}.d.ts`, default: `${compiled}.js` })
    }
  })

  it('ships the pages that its commands refer to', () => {
    const commands = files.filter(({ path }) => path.startsWith('src/commands/'))
    const pages = commands.flatMap(({ text }) =>
      [...text.matchAll(/: (docs\/[\w/-]+\.md)/g)].map(([, page]) => page ?? ''),
    )
    expect(pages.length).toBeGreaterThan(1)
    expect(pages.filter((page) => file(page) === '')).toEqual([])
    expect((JSON.parse(file('package.json')) as { files: string[] }).files).toContain('docs')
  })

  it('names a file for its concept, never for being of help', () => {
    const vague = /(^|\/)(utils?|helpers?|common|services?|types|misc|shared)([.]ts$|\/)/
    expect(files.map(({ path }) => path).filter((path) => path.startsWith('src/') && vague.test(path))).toEqual([])
  })

  it('binds every port of docker-compose.yml to loopback', () => {
    const ports = [...file('docker-compose.yml').matchAll(/^\s+- ['"]?([^'"\n]*:\d+)['"]?$/gm)].map((match) => match[1])
    expect(ports.length).toBeGreaterThan(0)
    for (const port of ports) expect(port).toMatch(/^127[.]0[.]0[.]1:/)
  })
})
