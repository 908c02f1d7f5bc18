/** Where a local Postgres keeps its data, as whom it runs, and that one process at a time runs it. */
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import type { ProcessIdentity } from './processes.ts'
import { identifyProcess, isRunning } from './processes.ts'

/** Users that exist for running a server or nothing at all, best first. Postgres refuses to run as root. */
const UNPRIVILEGED_USERS = ['postgres', '_postgres', 'nobody']
/** Every user may traverse these; a root whose clone lies under a closed folder keeps the cluster there. */
const OPEN_FOLDERS = ['/var/lib/durable-integrations', join(tmpdir(), 'durable-integrations-root')]
/** Of a folder in one of them. */
const CLUSTER_NAME = /^postgres-[0-9a-f]{12}$/

type Log = (line: string) => void

/** Whom the server runs as; null for the user of this process. */
export type RunAs = { readonly uid: number; readonly gid: number } | null

/** Clusters this process runs now: `owner.json` can't tell two callers of one process apart. */
const runningHere = new Set<string>()

/** Two supervisors on one folder would end each other's server. */
export function claimFolder(dataFolder: string): void {
  const path = join(dataFolder, 'owner.json')
  const owner = readJson<ProcessIdentity>(path)
  const isOther = owner !== null && owner.pid !== process.pid && isRunning(owner)
  if (isOther || runningHere.has(dataFolder)) {
    throw new Error(
      `${dataFolder} is in use by process ${owner?.pid ?? process.pid}. Stop that one, or use another folder.`,
    )
  }
  try {
    writeFileSync(path, JSON.stringify(identifyProcess(process.pid)))
  } catch (cause) {
    throw new Error(`${dataFolder} can't be written to by this user.`, { cause })
  }
  runningHere.add(dataFolder)
}

export function releaseFolder(dataFolder: string): void {
  runningHere.delete(dataFolder)
  rmSync(join(dataFolder, 'owner.json'), { force: true })
}

/** Root hands the server to the owner of the existing cluster, else to a user that is there for such things. */
export function findUser(dataFolder: string): RunAs {
  const self = process.getuid?.()
  const cluster = join(readText(join(dataFolder, 'location')) ?? dataFolder, 'cluster')
  const owner = statSync(cluster, { throwIfNoEntry: false })
  if (self !== 0) {
    if (owner !== undefined && owner.uid !== self) {
      throw new Error(
        `${cluster} belongs to the user with id ${owner.uid}. Start as that user or as root, or delete ${dataFolder} to start again.`,
      )
    }
    return null
  }
  if (owner !== undefined && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  for (const name of UNPRIVILEGED_USERS) {
    const [uid, gid] = ['-u', '-g'].map((flag) => spawnSync('id', [flag, name], { encoding: 'utf8' }).stdout?.trim())
    if (uid && gid) return { uid: Number(uid), gid: Number(gid) }
  }
  throw new Error(
    `Postgres does not run as root, and there is none of the users ${UNPRIVILEGED_USERS.join(', ')} to run it as. Create one (useradd --system postgres) or start as a normal user.`,
  )
}

/**
 * Where the cluster lies: in the data folder if the server's user can get there, else (a root whose clone is under its home or another
 * closed folder) in an open folder of the machine, which `location` remembers.
 */
export function clusterFolder(dataFolder: string, runAs: RunAs, log: Log): string {
  const locationFile = join(dataFolder, 'location')
  const known = readText(locationFile)
  if (known !== null) {
    if (!existsSync(known)) log(`${known} is gone, and the data with it: starting with an empty database`)
    mkdirSync(known, { recursive: true, mode: 0o711 })
    return known
  }
  if (runAs === null) return dataFolder
  // The folder itself is ours to open; those above are not.
  const { mode, uid } = statSync(dataFolder)
  if (uid === 0) chmodSync(dataFolder, (mode & 0o777) | 0o011)
  if (canEnter(dataFolder, runAs)) return dataFolder
  const elsewhere = join(openFolder(runAs), `postgres-${randomBytes(6).toString('hex')}`)
  mkdirSync(elsewhere, { mode: 0o711 })
  chmodSync(elsewhere, 0o711)
  writeFileSync(locationFile, elsewhere)
  log(`${dataFolder} is closed to the user that Postgres runs as; its data is kept in ${elsewhere}`)
  return elsewhere
}

/** Removes a data folder of a server that does not run, and its cluster, also where that lies elsewhere. */
export function removeDataFolder(dataFolder: string): void {
  const elsewhere = readText(join(dataFolder, 'location'))
  // Only what `clusterFolder()` has named: this is root's `rm -r`, of what a file says.
  if (elsewhere !== null && CLUSTER_NAME.test(basename(elsewhere))) rmSync(elsewhere, { recursive: true, force: true })
  rmSync(dataFolder, { recursive: true, force: true })
}

export function openFolder(runAs: RunAs): string {
  for (const folder of OPEN_FOLDERS) {
    try {
      mkdirSync(folder, { recursive: true, mode: 0o755 })
      // Under /tmp somebody else could have made it.
      if (statSync(folder).uid === 0 && canEnter(folder, runAs)) return folder
    } catch {
      // Read-only, or no such parent: the next one.
    }
  }
  throw new Error(
    `Postgres can't run as root, and its user can't reach the data folder nor ${OPEN_FOLDERS.join(' or ')}. Put the clone in a folder that every user may traverse, or start as a normal user.`,
  )
}

function canEnter(folder: string, runAs: RunAs): boolean {
  return spawnSync('/bin/sh', ['-c', 'cd "$1"', 'sh', folder], { ...runAs, cwd: '/', stdio: 'ignore' }).status === 0
}

export function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim()
  } catch {
    return null
  }
}

export function readJson<T>(path: string): T | null {
  const text = readText(path)
  try {
    return text === null ? null : (JSON.parse(text) as T)
  } catch {
    return null
  }
}
