/**
 * The binaries of a whole Temporal server: the server itself and the tool that makes its tables. Built by Go once, into the
 * cache folder; both have what they need inside, the tables' definitions, too.
 *
 * Source: https://docs.temporal.io/self-hosted-guide/deployment
 */
import { accessSync, constants } from 'node:fs'
import { join } from 'node:path'
import { cacheFolder, goEnvironment, inNewFolder, oneAtATime, run } from '../../dev/local-process.ts'

/** Knows fair queues (matching.enableFairness). It is the one inside the dev server that `npm start` builds. */
const VERSION = 'v1.29.1'
const BUILD_SECONDS = 1_800

export interface ServerBinaries {
  readonly server: string
  readonly sqlTool: string
}

type Log = (line: string) => void

/** Their paths. Built if they are missing: 2 minutes on two cores. @throws with what Go said */
export async function findServerBinaries(log: Log): Promise<ServerBinaries> {
  return {
    server: await findOrBuild('go.temporal.io/server/cmd/server', 'server', `temporal-server-${VERSION}`, log),
    sqlTool: await findOrBuild('go.temporal.io/server/cmd/tools/sql', 'sql', `temporal-sql-tool-${VERSION}`, log),
  }
}

/** @param made what `go install` calls the binary */
async function findOrBuild(goPackage: string, made: string, name: string, log: Log): Promise<string> {
  const path = join(cacheFolder(), 'bin', name)
  if (isThere(path)) return path
  return oneAtATime(`${path}.lock`, log, async () => {
    if (isThere(path)) return path // another process has built it meanwhile
    log(`building ${goPackage}@${VERSION} with Go (some 2 minutes, once)`)
    await inNewFolder(path, async (folder) => {
      const built = await run('go', ['install', `${goPackage}@${VERSION}`], {
        env: { ...goEnvironment(), GOBIN: folder },
        cwd: folder,
        seconds: BUILD_SECONDS,
      })
      if (built.code !== 0)
        throw new Error(
          `go install ${goPackage}@${VERSION}: ${built.output.trim().slice(-1_000)}. It takes Go 1.21 or later.`,
        )
      return join(folder, made)
    })
    return path
  })
}

function isThere(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
