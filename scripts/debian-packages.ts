/** What a machine lacks, out of Debian's packages. */
import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { isAtLeast } from './versions.ts'

const APT_GET = '/usr/bin/apt-get'
const APT_CACHE = '/usr/bin/apt-cache'

export interface DebianPackage {
  readonly name: string
  /** Debian's may be older than this: it is not installed then. */
  readonly oldest?: readonly number[]
}

type Log = (line: string) => void

export function isRootOnDebian(): boolean {
  return process.getuid?.() === 0 && existsSync('/etc/debian_version') && existsSync(APT_GET)
}

/** Installs those of them that are recent enough. What fails is logged: whether the need is met is for the caller to see. */
export function installPackages(packages: readonly DebianPackage[], log: Log): void {
  // Before the candidates are asked for: an image has no lists.
  aptGet(['update', '-qq'], log)
  const names = packages.filter((wanted) => isOffered(wanted, log)).map(({ name }) => name)
  if (names.length === 0) return
  log(`installing Debian packages: ${names.join(' ')}`)
  aptGet(['install', '-y', '-qq', '--no-install-recommends', ...names], log)
}

function isOffered({ name, oldest }: DebianPackage, log: Log): boolean {
  if (oldest === undefined) return true
  const { stdout } = spawnSync(APT_CACHE, ['policy', name], {
    env: { ...process.env, LC_ALL: 'C' },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const candidate = candidateOf(stdout ?? '')
  if (candidate !== null && isAtLeast(candidate, oldest)) return true
  log(`Debian's ${name} is ${candidate?.join('.') ?? 'not there'}: ${oldest.join('.')} or later is needed`)
  return false
}

/**
 * The version that `apt-get install` would take, as `apt-cache policy` says it: `Candidate: 2:1.24~2` is 1.24. Null: none.
 *
 * An epoch before it and a revision after it are Debian's own (Debian Policy, 5.6.12).
 */
export function candidateOf(policy: string): readonly number[] | null {
  const version = /^ *Candidate: (?:\d+:)?(\d+(?:\.\d+)*)/m.exec(policy)?.[1]
  return version === undefined ? null : version.split('.').map(Number)
}

function aptGet(args: readonly string[], log: Log): void {
  const { status, stderr } = spawnSync(APT_GET, args, {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    encoding: 'utf8',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  if (status !== 0) log(`apt-get ${args[0]} failed (${status}): ${stderr.trim().slice(-500)}`)
}
