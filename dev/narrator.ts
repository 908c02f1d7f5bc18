/** What `npm start` prints: the steps of its start, then one line for each thing that the JSON lines of API and worker tell. */

type Fields = Record<string, unknown>

/** Webhooks remembered between "stored" and "processed", so that the second line says what was processed, and how long that took. */
const MAX_REMEMBERED = 10_000
/** A wait that a person sees. */
const MIN_WAIT_MS = 1_000
/** A killed worker may have held hundreds of items: those that come within this time are one line. */
const LOST_ITEMS_MS = 1_000

export interface Narrator {
  /** @param source the process that wrote the line */
  line(source: string, text: string): void
}

/** Of a line, as the logger writes its time: ISO 8601. */
const momentOf = ({ time }: Record<string, unknown>): number => Date.parse(String(time))

/** @param commands how the package's commands are run in this folder */
export function createNarrator(print: (line: string) => void, commands = 'integrations'): Narrator {
  const stored = new Map<unknown, { readonly type: string; readonly atMs: number }>()
  let lostItems = 0
  const say = (topic: string, sentence: string): void =>
    print(
      `${new Date().toTimeString().slice(0, 8)}  ${topic.padEnd(8)} ${sentence.replaceAll('`integrations ', () => `\`${commands} `)}`,
    )

  const stories: Record<string, (fields: Fields) => void> = {
    'webhook.stored': (f) => {
      if (stored.size >= MAX_REMEMBERED) stored.clear()
      stored.set(f.webhook, { type: String(f.type ?? 'no type'), atMs: momentOf(f) })
      say('webhook', `#${f.webhook} received: ${nameOf(f.webhook)}`)
    },
    'webhook.processed': (f) => say('webhook', `#${f.webhook} processed: ${nameOf(f.webhook)} ${howLong(f)}`),
    'webhook.failed': (f) => say('webhook', `#${f.webhook} FAILED: ${nameOf(f.webhook)}: ${f.error}`),
    'webhook.refused': (f) =>
      say(
        'webhook',
        `${f.times ?? 1} REFUSED${f.integration == null ? '' : ` by integration ${f.integration}`}: ${reasonsIn(f)}`,
      ),
    'webhook.worker_lost': (f) => say('webhook', `#${f.webhook} lost its worker; taken up again`),
    'sync.started': (f) =>
      say(
        'sync',
        `run ${f.sync_log} started (${f.cursor === null ? 'first, everything' : `since ${f.cursor} less an hour`})`,
      ),
    'sync.listed': (f) => say('sync', `run ${f.sync_log} listed ${f.items} items`),
    'sync.finished': (f) =>
      say(
        'sync',
        `run ${f.sync_log} finished: ${f.status}; ${f.succeeded} succeeded, ${f.failed} failed; cursor ${f.cursor}`,
      ),
    'sync.failed': (f) => say('sync', `run ${f.sync_log} FAILED: ${f.error}`),
    'item.failed': (f) => say('item', `#${f.sync_item} (${f.external_id}) FAILED: ${f.error}`),
    'item.worker_lost': () => {
      if (lostItems === 0)
        setTimeout(() => {
          say('item', `${lostItems} lost their worker; taken up again`)
          lostItems = 0
        }, LOST_ITEMS_MS).unref()
      lostItems += 1
    },
    'inbox.wake_failed': (f) => say('inbox', `could not be woken (${f.error}); trying again in ${f.retry_in_ms} ms`),
    'inbox.pump_lost': (f) =>
      say(
        'inbox',
        `a worker died with ${f.webhooks} ${f.webhooks === 1 ? 'webhook' : 'webhooks'} in hand: handled again, one by one`,
      ),
    'outbox.pump_lost': (f) => say('outbox', `a worker died with ${f.events} events in hand; they are taken up again`),
    'worker.ready': (f) => say('worker', `ready, pid ${f.pid}`),
    'api.ready': (f) => say('api', `ready at ${f.url}, pid ${f.pid}`),
  }
  const nameOf = (id: unknown): string => stored.get(id)?.type ?? 'webhook'
  const reasonsIn = ({ reasons }: Fields): string => Object.keys(reasons ?? {}).join(', ') || 'no reason is known'
  /** The handler's time; with the wait before it, where that is much longer. */
  const howLong = ({ duration_ms: durationMs, ...line }: Fields): string => {
    const sinceStoredMs = momentOf(line) - (stored.get(line.webhook)?.atMs ?? Number.NaN)
    return sinceStoredMs - Number(durationMs) >= MIN_WAIT_MS
      ? `after ${(sinceStoredMs / 1_000).toFixed(1)} s (${durationMs} ms)`
      : `in ${durationMs} ms`
  }

  return {
    line(source, text) {
      const fields = parse(text)
      const story = fields === null ? undefined : stories[String(fields.event)]
      if (fields !== null && story !== undefined) story(fields)
      else if (fields === null) say(source, text)
      // pino's levels: 40 warns, 50 is an error.
      else if (Number(fields.level) >= 40)
        say(source, `${fields.msg}${fields.error === undefined ? '' : `: ${fields.error}`}`)
    },
  }
}

function parse(text: string): Fields | null {
  if (!text.startsWith('{')) return null
  try {
    return JSON.parse(text) as Fields
  } catch {
    return null
  }
}

/** The steps of a start, each with its duration. A long step reports its progress. */
export interface Checklist {
  step<T>(name: string, work: (progress: (line: string) => void) => Promise<T>): Promise<T>
}

export function createChecklist(print: (line: string) => void): Checklist {
  return {
    async step(name, work) {
      const startedAt = performance.now()
      const seconds = (): string => `${((performance.now() - startedAt) / 1_000).toFixed(1)} s`
      try {
        const result = await work((line) => print(`  …  ${name}: ${line}`))
        print(`  ✓  ${name.padEnd(34)} ${seconds()}`)
        return result
      } catch (error) {
        print(`  ✗  ${name.padEnd(34)} ${seconds()}`)
        throw error
      }
    },
  }
}
