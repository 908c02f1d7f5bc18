/** Clocks of single processes that can be set: by Debian's libfaketime, which Node obeys in its calendar and not in its timers. */
import { existsSync, readdirSync } from 'node:fs'
import { rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const LIBRARIES = '/usr/lib'
const NAME = 'faketime/libfaketime.so.1'

/** The library's path; null: it is not there. */
export function findFaketime(): string | null {
  const places = existsSync(LIBRARIES) ? readdirSync(LIBRARIES).map((place) => join(LIBRARIES, place, NAME)) : []
  return places.find((place) => existsSync(place)) ?? null
}

export interface Clocks {
  /** Of a process that is to obey its clock. Its own one is right until it is set. */
  environmentOf(name: string): Promise<Readonly<Record<string, string>>>
  /** @param seconds by which it is fast; below 0: slow */
  set(name: string, seconds: number): Promise<void>
}

export function fakeClocks(library: string, folder: string): Clocks {
  const fileOf = (name: string): string => join(folder, `${name}.clock`)
  const set = async (name: string, seconds: number): Promise<void> => {
    // A process never reads half of it.
    await writeFile(`${fileOf(name)}.new`, `${seconds < 0 ? '' : '+'}${seconds}\n`)
    await rename(`${fileOf(name)}.new`, fileOf(name))
  }
  return {
    set,
    async environmentOf(name) {
      await set(name, 0)
      return {
        LD_PRELOAD: library,
        FAKETIME_TIMESTAMP_FILE: fileOf(name),
        FAKETIME_CACHE_DURATION: '1',
        DONT_FAKE_MONOTONIC: '1',
        FAKETIME_DONT_FAKE_MONOTONIC: '1',
      }
    },
  }
}
