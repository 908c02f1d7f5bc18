/** A disk of a Postgres that can be filled to its last byte: a file system in memory, where this machine lets us mount one. */
import { spawnSync } from 'node:child_process'
import { rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const MEGABYTES = 1_500
const BALLAST_STEPS = 20

export interface ScarceDisk {
  readonly folder: string
  /** Takes what is free; ends what the returned function gives back. */
  fill(): Promise<() => Promise<void>>
  unmount(): Promise<void>
}

/** @param folder is there, and empty. @returns a text where it can't be mounted: why */
export function mountScarceDisk(folder: string): ScarceDisk | string {
  const options = `size=${MEGABYTES}m,mode=0711`
  const { status, stderr, error } = spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder], {
    encoding: 'utf8',
  })
  if (status !== 0) return `no tmpfs can be mounted (${(error?.message ?? stderr).trim()}): root may`
  return {
    folder,
    async fill() {
      const ballasts: string[] = []
      // Postgres goes on writing meanwhile.
      for (let step = 0; step < BALLAST_STEPS; step += 1) {
        const { bavail, bsize } = await statfs(folder)
        if (bavail === 0) break
        const ballast = join(folder, `ballast-${step}`)
        ballasts.push(ballast)
        spawnSync('fallocate', ['-l', String(bavail * bsize), ballast])
      }
      return async () => {
        for (const ballast of ballasts) await rm(ballast, { force: true })
      }
    },
    async unmount() {
      // A backend may take a moment to end.
      for (let tries = 0; tries < 50; tries += 1) {
        if (spawnSync('umount', [folder]).status === 0) return
        await sleep(100)
      }
      throw new Error(`${folder} can't be unmounted: something still uses it`)
    },
  }
}
