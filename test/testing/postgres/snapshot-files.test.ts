/** From a tar to the files that PGlite finds. */
import { MemoryFS, PGlite } from '@electric-sql/pglite'
import { describe, expect, it } from 'vitest'
import { fileSystemOf, filesIn } from '../../../src/testing/postgres/snapshot.ts'

const BLOCK_BYTES = 512
const END = Buffer.alloc(2 * BLOCK_BYTES)

/** https://www.gnu.org/software/tar/manual/html_node/Standard.html, without what the kit does not read. */
function entry(name: string, mode: number, content: Buffer | 'folder'): Buffer {
  const header = Buffer.alloc(BLOCK_BYTES)
  const bytes = content === 'folder' ? Buffer.alloc(0) : content
  header.write(name, 0)
  header.write(mode.toString(8).padStart(7, '0'), 100)
  header.write(bytes.length.toString(8).padStart(11, '0'), 124)
  header.write(content === 'folder' ? '5' : '0', 156)
  header.write('ustar', 257)
  const padding = Buffer.alloc((BLOCK_BYTES - (bytes.length % BLOCK_BYTES)) % BLOCK_BYTES)
  return Buffer.concat([header, bytes, padding])
}

const LONG_NAME = `/base/${'n'.repeat(93)}` // 99 bytes
const [TEXT, PAGE] = [Buffer.from('18\n'), Buffer.alloc(2 * BLOCK_BYTES, 7)]
const ENTRIES = [
  entry('/base', 0o700, 'folder'),
  entry('/base/5', 0o750, 'folder'),
  entry('/base/5/PG_VERSION', 0o600, TEXT),
  entry('/base/5/1259', 0o640, PAGE),
  entry('/base/5/empty', 0o600, Buffer.alloc(0)),
  entry(LONG_NAME, 0o600, TEXT),
]
const FILES = [
  { name: '/base', mode: 0o700, isFolder: true, bytes: '' },
  { name: '/base/5', mode: 0o750, isFolder: true, bytes: '' },
  { name: '/base/5/PG_VERSION', mode: 0o600, isFolder: false, bytes: TEXT.toString('hex') },
  { name: '/base/5/1259', mode: 0o640, isFolder: false, bytes: PAGE.toString('hex') },
  { name: '/base/5/empty', mode: 0o600, isFolder: false, bytes: '' },
  { name: LONG_NAME, mode: 0o600, isFolder: false, bytes: TEXT.toString('hex') },
]

const bytesOf = (tar: Buffer): Uint8Array => new Uint8Array(tar)
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')

describe('what a tar holds', () => {
  it('is read with names, modes, folders and contents', () => {
    const files = filesIn(bytesOf(Buffer.concat([...ENTRIES, END])))
    expect(files?.map(({ bytes, ...file }) => ({ ...file, bytes: hex(bytes) }))).toEqual(FILES)
  })

  it('is nothing when it is cut off, wherever', () => {
    const whole = Buffer.concat([...ENTRIES, END])
    const length = whole.length - END.length
    for (let bytes = 0; bytes < length + BLOCK_BYTES; bytes += 64) {
      expect(filesIn(bytesOf(whole.subarray(0, bytes))), `the first ${bytes} bytes`).toBeNull()
    }
  })

  it('is nothing when it is no tar', () => {
    expect(filesIn(new Uint8Array())).toBeNull()
    expect(filesIn(bytesOf(Buffer.alloc(4 * BLOCK_BYTES, 'not a tar ')))).toBeNull()
  })
})

it('is placed in PGlite’s memory as it was', async () => {
  const files = filesIn(bytesOf(Buffer.concat([...ENTRIES, END]))) ?? []
  const options = { fs: fileSystemOf(MemoryFS, files), noInitDb: true }
  const { FS } = (await PGlite.create(options)).Module
  for (const { name, mode, isFolder, bytes } of FILES) {
    const path = `/pglite/data${name}`
    const placed = FS.stat(path)
    expect(FS.isDir(placed.mode), path).toBe(isFolder)
    expect(placed.mode & 0o7777, path).toBe(mode)
    if (!isFolder) expect(hex(FS.readFile(path)), path).toBe(bytes)
  }
  expect(FS.readdir('/pglite/data/base').sort()).toEqual(['.', '..', '5', 'n'.repeat(93)])
})
