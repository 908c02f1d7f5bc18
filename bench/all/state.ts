/**
 * What a run of `all` has measured so far, in a git-ignored folder: a run that was killed goes on where it stopped.
 *
 * It is refused when what it measures has changed since: the options, or the sources under `src/`.
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import type { Printed } from '../frame.ts'

export interface Ran {
  readonly printed: Printed
  readonly seconds: number
  /** Of the last minute before it, by `uptime`. */
  readonly load: number
}

export interface State {
  readonly startedAt: string
  /** What is measured: the options of the run, and git's hash of `src/`. */
  readonly of: string
  readonly ran: Record<string, Ran>
}

/** @param of what is to be measured @throws when the file holds a run of something else */
export function openState(file: string, of: string, now: Date): State {
  const found = read(file)
  if (found === null) return { startedAt: now.toISOString(), of, ran: {} }
  if (found.of !== of)
    throw new Error(
      `An unfinished run of ${found.startedAt} measured something else (${found.of}) than what is asked for now (${of}). ` +
        'Finish it with its own options and sources, or drop it with --fresh.',
    )
  return found
}

/** Whole or not at all: a kill between two turns loses neither. */
export function keepState(file: string, state: State): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(`${file}.new`, JSON.stringify(state))
  renameSync(`${file}.new`, file)
}

export function dropState(file: string): void {
  rmSync(file, { force: true })
}

function read(file: string): State | null {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as State
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw new Error(`${file} can't be read. Drop it with --fresh.`, { cause: error })
  }
}

/** Git's hash of the committed `src/`, and whether it is changed. */
export function sourcesOf(root: string): string {
  const git = (...args: string[]): string | null => {
    const { status, stdout } = spawnSync('git', args, { cwd: root, encoding: 'utf8' })
    return status === 0 ? stdout.trim() : null
  }
  const tree = git('rev-parse', '--short', 'HEAD:src')
  if (tree === null) return 'src'
  return `src ${tree}${git('status', '--porcelain', 'src') === '' ? '' : ', changed'}`
}
