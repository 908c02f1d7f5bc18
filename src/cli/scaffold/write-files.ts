/** Puts new files into a folder: all of them or none, and never over what is there unless that is asked for. */
import { lstat, mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Refused } from '../failure.ts'

export interface NewFile {
  readonly name: string
  readonly text: string
}

/**
 * @param folder made where it is not there
 * @returns the paths, relative if the folder is
 * @throws Refused `file_exists`, `not_writable`
 */
export async function writeFiles(
  folder: string,
  files: readonly NewFile[],
  { overwrite }: { overwrite: boolean },
): Promise<string[]> {
  const planned = files.map(({ name, text }) => ({ path: join(folder, name), text }))
  const paths = planned.map(({ path }) => path)
  const present = new Set<string>()
  for (const path of paths) if (await isThere(folder, path)) present.add(path)
  if (!overwrite && present.size > 0) throw fileExists([...present])

  const begun: string[] = []
  try {
    await mkdir(folder, { recursive: true })
    for (const { path, text } of planned) {
      begun.push(path)
      // Exclusive: somebody else may have written it since it was looked for.
      await writeFile(path, text, { flag: overwrite ? 'w' : 'wx' })
    }
  } catch (error) {
    const taken = codeOf(error) === 'EEXIST' ? begun.pop() : undefined
    await Promise.all(begun.filter((path) => !present.has(path)).map((path) => rm(path, { force: true })))
    throw taken === undefined ? notWritable(folder, error) : fileExists([taken])
  }
  return paths
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
