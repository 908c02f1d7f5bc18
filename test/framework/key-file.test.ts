/** Permissions of a file that holds a key: docs/behaviour/credentials.md, "The file". */
import { describe, expect, it } from 'vitest'
import { keyFileFault } from '../../src/framework/key-file.ts'

const ROOT = 0
const US = 1000
const OTHER = 1001

describe('a file that holds a key', () => {
  it.each<[string, number, number, number | undefined, RegExp | null]>([
    ['600, ours', 0o600, US, US, null],
    ['400, ours', 0o400, US, US, null],
    ['640, ours, of a group', 0o640, US, US, null],
    ['644, ours', 0o644, US, US, /^has mode 644, so that every user of this machine may read it/],
    ['444, ours', 0o444, US, US, /every user/],
    ['666, ours', 0o666, US, US, /^has mode 666, so that others may change it/],
    ['660, ours', 0o660, US, US, /others may change it/],
    ['602, root’s', 0o602, ROOT, US, /^has mode 602, so that others may change it/],
    ['666, somebody else’s', 0o666, OTHER, US, /others may change it/],
    ['644 of a mounted secret of Kubernetes', 0o100644, ROOT, US, null],
    ['444 of a mounted secret of Docker Swarm', 0o100444, ROOT, US, null],
    ['440 with an fsGroup', 0o440, ROOT, US, null],
    ['644, in a container that runs as root', 0o644, ROOT, ROOT, null],
    ['666, to root', 0o666, ROOT, ROOT, /others may change it/],
    ['666 on Windows', 0o666, 0, undefined, null],
  ])('of mode %s', (_, mode, uid, self, fault) => {
    const said = keyFileFault({ mode, uid }, self)
    if (fault === null) expect(said).toBeNull()
    else expect(said).toMatch(fault)
  })
})
