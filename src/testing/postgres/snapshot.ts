/**
 * A migrated database in a file. Making one takes PGlite some 3 s, loading one half a second, so the first use on a
 * machine leaves one behind for the others.
 */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import type { MemoryFS, PGlite } from '@electric-sql/pglite'

/** Part of the name: raise it when what is in a snapshot beside the migrations changes. */
const FORMAT = 2
const MIGRATIONS = new URL('../../../drizzle/', import.meta.url)
/** Snapshots of other versions go once they are this old, when a new one is written; each is some 40 MB. */
const OUTDATED_AFTER_MS = 14 * 24 * 60 * 60 * 1_000
const SUFFIX = '.pglite.tar'

/** @returns the snapshot's path: PGlite's version, the files of `drizzle/`, and where the tables are to be */
export async function snapshotPath({ prefix, schema }: { prefix: string; schema: string }): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify([FORMAT, schema]))
  for (const file of (await readdir(MIGRATIONS, { recursive: true })).filter((name) => name.endsWith('.sql')).sort())
    hash.update(file).update(await readFile(new URL(file, MIGRATIONS)))
  return join(cacheFolder(), `${await pgliteVersion()}-${prefix}-${hash.digest('hex').slice(0, 12)}${SUFFIX}`)
}

/** Null when there is none. */
export async function readSnapshot(path: string): Promise<Uint8Array | null> {
  try {
    const { buffer, byteOffset, byteLength } = await readFile(path)
    // No Buffer: its `slice()` is no copy, and PGlite's file system takes one for granted.
    return new Uint8Array(buffer, byteOffset, byteLength)
  } catch {
    return null
  }
}

/** Whole or not at all, also when several processes write it. A folder that can't be written only costs the time. */
export async function writeSnapshot(path: string, snapshot: Blob): Promise<void> {
  const unfinished = `${path}.${randomBytes(6).toString('hex')}`
  try {
    await mkdir(dirname(path), { recursive: true })
    await removeOutdated(dirname(path))
    await writeFile(unfinished, Buffer.from(await snapshot.arrayBuffer()))
    await rename(unfinished, path)
  } catch {
    await rm(unfinished, { force: true }).catch(() => {})
  }
}

async function removeOutdated(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name)
    const isOld = Date.now() - (await stat(path)).mtimeMs > OUTDATED_AFTER_MS
    if (name.includes(SUFFIX) && isOld) await rm(path, { force: true })
  }
}

/** Beside the host's packages, so that a clean installation makes its own; else in the user's cache folder. */
function cacheFolder(): string {
  for (let folder = process.cwd(); ; folder = dirname(folder)) {
    const packages = join(folder, 'node_modules')
    if (existsSync(packages)) return join(packages, '.cache', 'durable-integrations')
    if (folder === dirname(folder)) break
  }
  return join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'durable-integrations')
}

async function pgliteVersion(): Promise<string> {
  const entry = createRequire(import.meta.url).resolve('@electric-sql/pglite')
  const description = await readFile(resolve(dirname(entry), '../package.json'), 'utf8')
  return `pglite-${(JSON.parse(description) as { version: string }).version}`
}

/** Where PGlite looks for the database. */
const DATA_FOLDER = '/pglite/data'

/** Headers and the padding of what follows them: https://www.gnu.org/software/tar/manual/html_node/Standard.html */
const BLOCK_BYTES = 512
const DIRECTORY = '5'

export interface SnapshotFile {
  /** Below the data folder, with a leading slash. */
  readonly name: string
  readonly mode: number
  readonly isFolder: boolean
  readonly bytes: Uint8Array
}

/**
 * A file system with a snapshot's files, put into PGlite's memory as they are. PGlite's own `loadDataDir` took some 0.4 s more for
 * the 40 MB (0.5.16, measured once on two cores).
 *
 * @param files belong to the database from now on: it writes into them
 */
export function fileSystemOf(memory: typeof MemoryFS, files: readonly SnapshotFile[]): MemoryFS {
  class SnapshotFiles extends memory {
    declare protected pg?: PGlite

    override async initialSyncFs(): Promise<void> {
      const { FS } = (this.pg as PGlite).Module
      FS.mkdirTree(DATA_FOLDER)
      for (const { name, mode, isFolder, bytes } of files) {
        const path = DATA_FOLDER + name
        if (isFolder) FS.mkdirTree(path)
        else FS.writeFile(path, bytes, { canOwn: true })
        FS.chmod(path, mode)
      }
    }
  }
  return new SnapshotFiles()
}

/**
 * As far as PGlite writes them: folders, each before what is in it, and files with names below 100 bytes.
 *
 * @returns null when the tar lacks its end, or is none
 */
export function filesIn(tar: Uint8Array): SnapshotFile[] | null {
  const header = Buffer.from(tar.buffer, tar.byteOffset, tar.byteLength)
  const text = (from: number, length: number): string => {
    const end = header.indexOf(0, from)
    return header.toString('latin1', from, end < 0 ? from + length : Math.min(end, from + length))
  }
  const octal = (from: number, length: number): number => Number.parseInt(text(from, length), 8)
  const files: SnapshotFile[] = []
  for (let at = 0; at + BLOCK_BYTES <= tar.length; ) {
    // A block without a name is the end.
    if (tar[at] === 0) return files
    const [size, mode] = [octal(at + 124, 12), octal(at + 100, 8)]
    if (Number.isNaN(size) || Number.isNaN(mode)) return null
    const from = at + BLOCK_BYTES
    files.push({
      name: text(at, 100),
      mode,
      isFolder: text(at + 156, 1) === DIRECTORY,
      bytes: tar.subarray(from, from + size),
    })
    at = from + Math.ceil(size / BLOCK_BYTES) * BLOCK_BYTES
  }
  return null
}
