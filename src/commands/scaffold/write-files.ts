/** Puts new files into a folder: all of them or none, and never over what is there unless that is asked for. */
import { lstat, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Refused } from '../refused.ts'

export interface NewFile {
  readonly name: string
  readonly text: string
}

/**
 * @param folder made where it is not there
 * @param overwrite a link is replaced as well, and what it leads to is left alone
 * @returns the paths, relative if the folder is
 * @throws Refused `file_exists`, `not_writable`
 */
export async function writeFiles(
  folder: string,
  files: readonly NewFile[],
  { overwrite }: { overwrite: boolean },
): Promise<string[]> {
  const paths = files.map(({ name }) => join(folder, name))
  if (!overwrite) {
    const present: string[] = []
    for (const path of paths) if (await isThere(folder, path)) present.push(path)
    if (present.length > 0) throw fileExists(present)
  }
  try {
    await mkdir(folder, { recursive: true })
    if (overwrite) await replaceAll(folder, files)
    else await writeAll(folder, files)
  } catch (error) {
    throw error instanceof Refused ? error : notWritable(folder, error)
  }
  return paths
}

async function writeAll(folder: string, files: readonly NewFile[]): Promise<void> {
  const begun: string[] = []
  try {
    for (const { name, text } of files) {
      const path = join(folder, name)
      begun.push(path)
      // Exclusive: somebody else may have written it since it was looked for.
      await writeFile(path, text, { flag: 'wx' })
    }
  } catch (error) {
    const taken = codeOf(error) === 'EEXIST' ? begun.pop() : undefined
    await Promise.all(begun.map((path) => rm(path, { force: true })))
    throw taken === undefined ? error : fileExists([taken])
  }
}

/** All are written beside their places before the first is put there: a disk that is full then changes nothing. */
async function replaceAll(folder: string, files: readonly NewFile[]): Promise<void> {
  const beside = await mkdtemp(join(folder, '.new-'))
  const undo: (() => Promise<void>)[] = []
  try {
    for (const { name, text } of files) await writeFile(join(beside, name), text)
    for (const { name } of files) {
      const path = join(folder, name)
      const kept = join(beside, `${name}.kept`)
      // A folder stays, and refuses to be replaced by a file.
      if ((await isThere(folder, path)) && !(await lstat(path)).isDirectory()) {
        await rename(path, kept)
        undo.push(() => rename(kept, path))
        await rename(join(beside, name), path)
      } else {
        await rename(join(beside, name), path)
        undo.push(() => rm(path, { force: true }))
      }
    }
  } catch (error) {
    for (const step of undo.reverse()) await step()
    throw error
  } finally {
    await rm(beside, { recursive: true, force: true })
  }
}

/** Also a link that leads nowhere. */
async function isThere(folder: string, path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' || code === 'ENOTDIR') return false
    throw notWritable(folder, error)
  }
}

function fileExists(paths: readonly string[]): Refused {
  const [are, them] = paths.length === 1 ? ['is', 'it'] : ['are', 'them']
  return new Refused(
    'file_exists',
    `${paths.join(' and ')} ${are} there already, and nothing was written. Give another identifier or --dir, or overwrite ${them} by --force.`,
  )
}

function notWritable(folder: string, error: unknown): unknown {
  if (codeOf(error) === undefined) return error
  const { message } = error as NodeJS.ErrnoException
  return new Refused('not_writable', `The provider can't be written to ${folder}: ${message}. Give another by --dir.`)
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined
}
