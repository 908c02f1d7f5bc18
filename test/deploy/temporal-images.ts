/**
 * The programs inside the images temporalio/server and temporalio/admin-tools of a version, from the same sources: built by Go
 * once, into the cache folder (some 2 minutes). What their Dockerfiles add is an entrypoint that finds the container's address.
 *
 * Source: docker/targets in https://github.com/temporalio/temporal.
 */
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { cacheFolder, oneAtATime, run } from '../../dev/local-process.ts'
import { findTemporalBinary } from '../../dev/temporal-server-binary.ts'

const BUILD_SECONDS = 1_800
const MODULE = 'go.temporal.io/server'

export interface TemporalImages {
  /** Has `temporal-server`, `temporal-sql-tool` and `temporal` in it, as /usr/local/bin of the images. */
  readonly programs: string
  /** What lies at /etc/temporal/schema in the image. */
  readonly schemas: string
}

/** @param image such as temporalio/server:1.31.0 */
export async function temporalImages(image: string): Promise<TemporalImages> {
  const version = `v${image.split(':')[1]}`
  const programs = join(cacheFolder(), `temporal-images-${version}`)
  await oneAtATime(`${programs}.lock`, console.log, async () => {
    if (existsSync(programs)) return
    await mkdir(cacheFolder(), { recursive: true })
    const fresh = await mkdtemp(`${programs}.new-`)
    try {
      const packages = ['cmd/server', 'cmd/tools/sql'].map((path) => `${MODULE}/${path}@${version}`)
      await go(['install', ...packages], { GOBIN: fresh, CGO_ENABLED: '0' })
      await rename(join(fresh, 'server'), join(fresh, 'temporal-server'))
      await rename(join(fresh, 'sql'), join(fresh, 'temporal-sql-tool'))
      await symlink(await findTemporalBinary(), join(fresh, 'temporal'))
      await chmod(fresh, 0o755)
      await rename(fresh, programs)
    } finally {
      await rm(fresh, { recursive: true, force: true })
    }
  })
  const downloaded = JSON.parse(await go(['mod', 'download', '-json', `${MODULE}@${version}`])) as { Dir: string }
  return { programs, schemas: join(downloaded.Dir, 'schema') }
}

async function go(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<string> {
  const { code, output } = await run('go', args, { env: { ...process.env, ...env }, seconds: BUILD_SECONDS })
  if (code !== 0) throw new Error(`go ${args.join(' ')}: ${output.trim().slice(-1_000)}`)
  return output
}
