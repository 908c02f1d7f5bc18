/**
 * An environment of Python's (https://docs.python.org/3/library/venv.html) in the cache folder. It has packages of its own, and the
 * interpreter of the system: when that is replaced or removed, the environment stays behind and is of no use.
 */
import { createHash } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder, inNewFolder, oneAtATime, run } from '../../dev/local-process.ts'

const START_SECONDS = 30
const INSTALL_SECONDS = 600
const CACHE_TAG = 'import sys; print(sys.implementation.cache_tag)'
/** The oldest that each package runs on, and what it brings with it. */
export const OLDEST_PYTHON = [3, 11] as const
const NEEDS = `Python ${OLDEST_PYTHON.join('.')} or later with venv (on Debian: python3-venv), and PyPI within reach.`

/** A package of PyPI that the tests use. */
export interface PythonPackage {
  readonly name: string
  readonly version: string
  /** What is imported to see that all of it is there. */
  readonly module: string
  /** File that says which version of what it brings with it. */
  readonly constraints: string
}

type Log = (line: string) => void

/** Path of the Python that has it. Installed into the cache folder if there is none: 20 s. */
export async function findPackage(wanted: PythonPackage, { log = () => {} }: { log?: Log } = {}): Promise<string> {
  const present = await presentPackage(wanted)
  if (present !== null) return present
  const { name, version, module, constraints } = wanted
  const folder = await placeOf(wanted)
  if (folder === null) throw new Error(`${name} needs ${NEEDS}`)
  return oneAtATime(`${folder}.lock`, log, async () => {
    const madeMeanwhile = await usableEnvironment(folder, module)
    if (madeMeanwhile !== null) return madeMeanwhile
    log(`installing ${name}==${version} with pip (20 s, once)`)
    return replaceEnvironment(folder, async (environment) => {
      await runPython('python3', ['-m', 'venv', environment])
      const pip = ['-m', 'pip', 'install', '--quiet', '--no-input', '--disable-pip-version-check']
      await runPython(pythonIn(environment), [...pip, '-c', constraints, `${name}==${version}`])
    })
  })
}

/** The same without installing: null when this machine has none yet, or none that still runs. */
export async function presentPackage(wanted: PythonPackage): Promise<string | null> {
  const folder = await placeOf(wanted)
  return folder === null ? null : usableEnvironment(folder, wanted.module)
}

/** Named for all that decides what is in it, so that another of it is another folder. Null without Python. */
async function placeOf({ name, version, constraints }: PythonPackage): Promise<string | null> {
  const [tag, text] = await Promise.all([pythonTag(), readFile(constraints)])
  const digest = createHash('sha256').update(text).digest('hex').slice(0, 8)
  return tag === null ? null : join(cacheFolder(), `${name}-${version}-${tag}-${digest}`)
}

async function runPython(python: string, args: readonly string[]): Promise<void> {
  const { code, output } = await run(python, args, { seconds: INSTALL_SECONDS })
  if (code === 0) return
  throw new Error(`${python} ${args.join(' ')}: ${output.trim().slice(-1_000)}. It takes ${NEEDS}`)
}

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
