/** The memory of the process that asks. The parent gives `--expose-gc`. */
import { setTimeout as sleep } from 'node:timers/promises'

export interface Memory {
  /** After a collection of garbage. */
  readonly heapBytes: number
  /** Of the whole process, after the collection: the threads that run workflows and the SDK's core are not on the heap. */
  readonly residentBytes: number
}

/** V8 gives pages back to the system beside the program, after the collection that emptied them. */
const PAGES_RETURNED_MS = 500

export async function memoryAfterCollection(): Promise<Memory> {
  collectGarbage()
  await sleep(PAGES_RETURNED_MS)
  collectGarbage()
  const { heapUsed, rss } = process.memoryUsage()
  return { heapBytes: heapUsed, residentBytes: rss }
}

export function collectGarbage(): void {
  if (globalThis.gc === undefined) throw new Error('memory is measured with --expose-gc only')
  globalThis.gc()
}
