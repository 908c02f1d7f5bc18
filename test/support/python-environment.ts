/**
 * An environment of Python's (https://docs.python.org/3/library/venv.html) in the cache folder. It has packages of its own, and the
 * interpreter of the system: when that is replaced or removed, the environment stays behind and is of no use.
 */
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { inNewFolder, run } from '../../dev/local-process.ts'

const START_SECONDS = 30
const CACHE_TAG = 'import sys; print(sys.implementation.cache_tag)'

/** Which Python this is, as packages are installed for it: `cpython-311`. Null when there is none. */
export async function pythonTag(python = 'python3'): Promise<string | null> {
  const { code, output } = await run(python, ['-c', CACHE_TAG], { seconds: START_SECONDS })
  return code === 0 ? output.trim() : null
}

/** Path of the Python of an environment that has the module; null when it is not there, or has it no longer. */
export async function usableEnvironment(folder: string, module: string): Promise<string | null> {
  const python = pythonIn(folder)
  const { code } = await run(python, ['-c', `import ${module}`], { seconds: START_SECONDS })
  return code === 0 ? python : null
}

/** @param fill makes the environment; it is then moved to `folder`, in the place of what is there */
export async function replaceEnvironment(
  folder: string,
  fill: (environment: string) => Promise<void>,
): Promise<string> {
  await inNewFolder(folder, async (parent) => {
    const environment = join(parent, 'environment')
    await fill(environment)
    // A folder is moved to the place of an empty one only.
    await rm(folder, { recursive: true, force: true })
    return environment
  })
  return pythonIn(folder)
}

export function pythonIn(folder: string): string {
  return join(folder, 'bin', 'python3')
}
