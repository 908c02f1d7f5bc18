/** Providers whose listings break one rule each, and the checks that have to find it. */
import { z } from 'zod'
import type { Integration, Json, ListedWebhook, MissedWebhook, SyncSession } from '../../../src/provider.ts'
import { RateLimit, statusOf } from '../../../src/provider.ts'
import type { Broken } from './broken.ts'
import { but, hidingTheStatus, of } from './broken.ts'
import type { Ticket } from './sound-provider.ts'
import { NoteSynced, SoundProvider, TicketSynced } from './sound-provider.ts'

type Listed = z.output<typeof Ticket>

const times = (checkpoints: readonly Json[]) => checkpoints.map((each) => Date.parse(String(each)))
const at = (time: number) => new Date(time).toISOString()
const known = (checkpoints: readonly Json[]) => checkpoints.filter((each) => each !== null)
const reducing = (reduce: (checkpoints: readonly Json[]) => unknown) => but(() => ({ reduceCheckpoints: reduce }))
const REDUCERS = of(
  'HasScheduledSync: reduceCheckpoints()',
  [
    'needs something to reduce',
    reducing((checkpoints) => known(checkpoints).reduce((a, b) => (String(a) > String(b) ? a : b))),
    'the reducer of nothing gives null',
    'the reducer passes nulls over',
  ],
  [
    'takes null for the greatest',
    reducing((checkpoints) => (checkpoints.includes(null) ? null : new SoundProvider().reduceCheckpoints(checkpoints))),
    'the reducer passes nulls over',
  ],
  [
    'adds up',
    reducing((checkpoints) =>
      known(checkpoints).length === 0
        ? null
        : known(checkpoints).reduce((sum: number, each) => sum + (Number(each) || String(each).length), 0),
    ),
    'the reducer gives the same for what it has seen twice',
  ],
  [
    'takes the last one',
    reducing((checkpoints) => known(checkpoints).at(-1) ?? null),
    'the reducer gives the same in any order',
  ],
  [
    'takes the middle',
    reducing((checkpoints) => {
      const all = times(known(checkpoints))
      return all.length === 0 ? null : at((Math.min(...all) + Math.max(...all)) / 2)
    }),
    'the reducer gives the same however the checkpoints are split up',
  ],
  [
    'gives what is no JSON',
    reducing((checkpoints) => new Date(Math.max(...times(known(checkpoints))))),
    'the reducer of nothing gives null',
    'the reducer passes nulls over',
    'the reducer gives the same for what it has seen twice',
    'the reducer gives the same in any order',
    'the reducer gives the same however the checkpoints are split up',
    'the reducer moves on with a later checkpoint',
    /must give JSON/,
  ],
  [
    'takes the first one in time',
    reducing((checkpoints) => {
      const all = times(known(checkpoints))
      return all.length === 0 ? null : at(Math.min(...all))
    }),
    'the reducer moves on with a later checkpoint',
    /must move on with a later checkpoint/,
  ],
)

const TWO_PAGES = 'lists items over two pages or more, and all of them are processed'
const CLASSES = 'lists items of the classes in syncItemEvents() only'
const IDS = 'gives no two different items of a class the same external id'
const PAYLOADS = 'hands in payloads that come back from JSON, and from their schema, as they were'
const CHECKPOINTS = 'gives items checkpoints that are JSON, as a sync from a cursor needs them'
const CURSOR = 'ends at the cursor that its checkpoints reduce to'
const AGAIN = 'runs again from the cursor of the run before'
const AT_ONCE = 'lists everything where another integration is listed meanwhile'
const ABORTED = 'stops asking at once when its session is aborted'
const FAULTS = 'throws what goes wrong in the middle: a listing that breaks off must not look whole'
const DEFERRED = 'is put off by a 429 in the middle, and loses no item by it'
const RESUMED = 'loses no item by a 429 when the next try goes on, from its bookmark or, without one, anew'
const FROM_CURSOR = "asks from the session's cursor, and lists something from there"

const FULL = 'calls fullListing() from a cursor only where it lists everything'
const TIMES = 'gives checkpoints that are times, or lists by them and says so'
const CHANGED = 'leaves the cursor where its listing began, whatever changes behind the page'

class StrippedTicket extends TicketSynced {
  static override readonly type: string = 'tickets.stripped'
  static override readonly schema = z.object({ id: z.string(), subject: z.string() })
}

const dispatching = (dispatch: (session: SyncSession, ticket: Listed) => Promise<void>) => but(() => ({ dispatch }))

const byNumber = (session: SyncSession, ticket: Listed) =>
  session.dispatch(new TicketSynced(session.integration, ticket), Date.parse(ticket.updated_at), ticket.id)

const SYNCS = of(
  'HasScheduledSync: a run',
  [
    'lists the first page only',
    but((sound) => ({
      list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
        const { tickets } = await sound.page(integration, { ...query, after: '' }, session.signal)
        for (const ticket of tickets) await sound.dispatch(session, ticket)
      },
    })),
    TWO_PAGES,
    FAULTS,
    DEFERRED,
    RESUMED,
    /must have two pages or more; the listing made 1 requests/,
  ],
  [
    'hands in a class that it does not declare',
    dispatching((session, ticket) =>
      session.dispatch(new NoteSynced(session.integration, ticket), ticket.updated_at, ticket.id),
    ),
    TWO_PAGES,
    CLASSES,
    CURSOR,
    AGAIN,
    DEFERRED,
    CHANGED,
  ],
  [
    'gives the day for an external id',
    dispatching((session, ticket) =>
      session.dispatch(new TicketSynced(session.integration, ticket), ticket.updated_at, 'today'),
    ),
    IDS,
    /tickets\.synced today/,
  ],
  [
    'hands in a Date',
    dispatching((session, ticket) =>
      session.dispatch(
        new TicketSynced(session.integration, { ...ticket, seen: new Date(0) }),
        ticket.updated_at,
        ticket.id,
      ),
    ),
    PAYLOADS,
  ],
  [
    'hands in what its schema drops',
    but(() => ({
      syncItemEvents: () => [StrippedTicket],
      dispatch: (session: SyncSession, ticket: Listed) =>
        session.dispatch(new StrippedTicket(session.integration, ticket), ticket.updated_at, ticket.id),
    })),
    PAYLOADS,
  ],
  [
    'gives no checkpoints',
    dispatching((session, ticket) => session.dispatch(new TicketSynced(session.integration, ticket), null, ticket.id)),
    CHECKPOINTS,
  ],
  [
    'reduces to something else each time',
    but(() => {
      let calls = 0
      return {
        reduceCheckpoints: (checkpoints: readonly Json[]) => {
          calls += 1
          return `${new SoundProvider().reduceCheckpoints(checkpoints)}#${calls}`
        },
      }
    }),
    CURSOR,
  ],
  [
    'can not go on from a cursor',
    but(() => ({
      syncIncremental: async (integration: Integration, session: SyncSession) => {
        if (session.cursor() !== null) throw new Error('not built')
        await new SoundProvider().sync(integration, session)
      },
    })),
    AGAIN,
    FROM_CURSOR,
    FULL,
  ],
  [
    'asks on when nobody listens',
    but((sound) => ({
      list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
        const found: Listed[] = []
        for (let after: string | null = ''; after !== null; ) {
          const { tickets, next } = await sound.page(integration, { ...query, after })
          found.push(...tickets)
          after = next
        }
        for (const ticket of found) await sound.dispatch(session, ticket)
      },
    })),
    ABORTED,
  ],
  [
    'takes a fault for the end',
    but(() => ({
      page: async (...given: Parameters<SoundProvider['page']>) => {
        try {
          return await new SoundProvider().page(...given)
        } catch (error) {
          if (statusOf(error) === 429 || (statusOf(error) === null && !(error instanceof TypeError))) throw error
          return { tickets: [], next: null }
        }
      },
    })),
    FAULTS,
    /after a 500 in request 2 of 3 it ended with 2 items of 5/,
    /after an answer that breaks off in request 3 of 3 it ended with 4 items of 5/,
  ],
  [
    'takes a limit for the end',
    but(() => ({
      page: async (...given: Parameters<SoundProvider['page']>) => {
        try {
          return await new SoundProvider().page(...given)
        } catch (error) {
          if (statusOf(error) !== 429 && (error as { code?: unknown }).code !== 'rate_limit_exceeded') throw error
          return { tickets: [], next: null }
        }
      },
    })),
    DEFERRED,
    RESUMED,
    /a run that was put off by a 429 must list what an undisturbed one lists; it lacks 1 of 5/,
    /a listing that does not throw a 429.* it lacks 1 of 5/,
  ],
  ['hides the status of what failed', hidingTheStatus, DEFERRED, /a 429 must put the listing off.*no luck/],
  [
    'takes a limit for a fault',
    but((sound) => ({
      list: (...given: Parameters<SoundProvider['list']>) =>
        new SoundProvider().list.apply(sound, given).catch((error: unknown) => {
          throw given[1].signal.aborted ? error : new Error('no luck')
        }),
    })),
    DEFERRED,
    /a 429 must put the listing off/,
  ],
  [
    'sets its bookmark before the items that it stands for',
    but((sound) => ({
      list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
        for (let after: Json = session.resumeFrom() ?? ''; after !== null; ) {
          const { tickets, next } = await sound.page(integration, { ...query, after: String(after) }, session.signal)
          if (next !== null) await session.bookmark(next)
          for (const ticket of tickets) await sound.dispatch(session, ticket)
          after = next
        }
      },
    })),
    DEFERRED,
    RESUMED,
    /goes on from 'third' must list what an undisturbed one lists; it lacks 2 of 5/,
  ],
  [
    'sets bookmarks and begins again',
    but((sound) => ({
      list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
        for (let after: string | null = ''; after !== null; ) {
          const { tickets, next } = await sound.page(integration, { ...query, after }, session.signal)
          for (const ticket of tickets) await sound.dispatch(session, ticket)
          if (next !== null) await session.bookmark(next)
          after = next
        }
      },
    })),
    RESUMED,
    /must not ask for everything again.* it made 3 requests, a whole one makes 3/,
  ],
  [
    'sets its cursor to the present itself',
    but((sound) => ({
      syncIncremental: async (integration: Integration, session: SyncSession) => {
        await new SoundProvider().syncIncremental.call(sound, integration, session)
        await integration.updateSyncCursor(new Date().toISOString())
      },
    })),
    CURSOR,
    CHANGED,
    /the listing began at 2026-.*Do not set it yourself/,
  ],
  ['gives checkpoints that are no times', dispatching(byNumber), TIMES, /only a time can be: .* 17\d+, 17/],
  [
    'says that it lists by its checkpoints and does not',
    but((sound) => ({
      listsByCheckpoint: true,
      page: async (...given: Parameters<SoundProvider['page']>) => {
        const { tickets, next } = await new SoundProvider().page.apply(sound, given)
        return { tickets: [...tickets].reverse(), next }
      },
    })),
    TIMES,
    /here are tickets\.synced, in the order .*02-02.*02-01.*02-04/,
  ],
  [
    "asks from the integration's cursor",
    but((sound) => ({
      syncIncremental: (integration: Integration, session: SyncSession) =>
        sound.list(
          integration,
          session,
          integration.syncCursor === null ? {} : { since: String(integration.syncCursor) },
        ),
    })),
    FROM_CURSOR,
  ],
  [
    'counts its pages for all integrations',
    but((sound) => {
      let page = 0
      return {
        list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
          for (page = 0; page < 3; page += 1) {
            const after = ['', 'second', 'third'][page] ?? ''
            const { tickets } = await sound.page(integration, { ...query, after }, session.signal)
            for (const ticket of tickets) await sound.dispatch(session, ticket)
          }
        },
      }
    }),
    AT_ONCE,
    /a listing beside that of another integration must list .* it lacks 3 of 5/,
  ],
  [
    'takes what changed for everything',
    but((sound) => ({
      syncIncremental: async (integration: Integration, session: SyncSession) => {
        const since = session.cursor()
        if (since === null) return sound.sync(integration, session)
        session.fullListing()
        const { tickets } = await sound.page(integration, { since: String(since), after: 'third' }, session.signal)
        for (const ticket of tickets) await sound.dispatch(session, ticket)
      },
    })),
    FULL,
    /from the cursor '2026-02-01T10:00:00Z' lacks 4 of 5 items: .*t1/,
  ],
)

const LISTS_WINDOW = 'lists a window, in items of the declared classes, and takes it for no full listing'
const WINDOW_FAULTS = 'throws what goes wrong: a window that breaks off must not look whole'
const WINDOWS = of(
  'HasBackfill',
  [
    'takes a window for everything',
    but((sound) => ({
      syncWindow: (integration: Integration, session: SyncSession) => {
        session.fullListing()
        return sound.list(integration, session, {})
      },
    })),
    LISTS_WINDOW,
    /must not call fullListing\(\)/,
  ],
  [
    'hands in a class of a window that it does not declare',
    but((sound) => ({
      syncWindow: async (integration: Integration, session: SyncSession) => {
        const { tickets } = await sound.page(integration, { after: '' }, session.signal)
        for (const ticket of tickets) await session.dispatch(new NoteSynced(integration, ticket), null, ticket.id)
      },
    })),
    LISTS_WINDOW,
    /it lacks tickets\.note/,
  ],
  [
    'has no window',
    but(() => ({ syncWindow: async () => {} })),
    LISTS_WINDOW,
    WINDOW_FAULTS,
    /nothing was handed in/,
    /made no request/,
  ],
  [
    'takes a fault for the end of a window',
    but((sound) => ({
      syncWindow: (integration: Integration, session: SyncSession) =>
        sound.list(integration, session, {}).catch((error: unknown) => {
          if (session.signal.aborted) throw error
        }),
    })),
    WINDOW_FAULTS,
    /after a 500 in request 3 of 3 it ended with 4 items of 5/,
  ],
  [
    'asks on when nobody listens',
    but((sound) => ({
      syncWindow: async (integration: Integration, session: SyncSession) => {
        for (const after of ['', 'second', 'third']) {
          const { tickets } = await sound.page(integration, { after })
          if (!session.signal.aborted) for (const ticket of tickets) await sound.dispatch(session, ticket)
        }
      },
    })),
    'stops asking at once when its session is aborted',
    /it made 2 more requests/,
  ],
)

const LISTS = 'lists deliveries with an id, of its window, oldest first'
const AS_DELIVERED = 'gives each delivery the id and the type that are read off its content'
const LIST_FAULTS = 'throws what goes wrong: a list that breaks off must not look whole'
const missing = (...each: [id: string, at: string][]) =>
  but((sound) => ({
    async *missedWebhooks(integration: Integration) {
      await sound.get(integration, '/deliveries')
      for (const [deliveryId, when] of each)
        yield { deliveryId, eventType: null, payload: '{}', headers: {}, occurredAt: new Date(when) }
    },
  }))
/** What the sound provider lists, each changed on its way. */
const changing = (change: (missed: MissedWebhook) => MissedWebhook | ListedWebhook) =>
  but(() => ({
    async *missedWebhooks(...given: Parameters<SoundProvider['missedWebhooks']>) {
      for await (const missed of new SoundProvider().missedWebhooks(...given)) yield change(missed)
    },
  }))
const RECONCILIATION = of(
  'ReconcilesWebhooks',
  [
    'lists what is before its window',
    missing(['d1', '2020-01-01T00:00:00Z'], ['d2', '2026-03-01T11:30:00Z']),
    LISTS,
    /must keep to its window.* d1 is of 2020/,
  ],
  [
    'lists a delivery without an id',
    missing(['', '2026-03-01T11:30:00Z'], ['d2', '2026-03-01T11:40:00Z']),
    LISTS,
    /must have the id that it would have had; one has ''/,
  ],
  [
    'lists the newest first',
    missing(['d2', '2026-03-01T11:40:00Z'], ['d1', '2026-03-01T11:30:00Z']),
    LISTS,
    /must list the oldest first; d1 is of/,
  ],
  [
    'lists one delivery',
    missing(['d1', '2026-03-01T11:30:00Z']),
    LISTS,
    /must have 2 missed deliveries or more.* 1 were listed/,
  ],
  [
    'lists nothing, and asks for nothing',
    but(() => ({ async *missedWebhooks() {} })),
    LISTS,
    LIST_FAULTS,
    /must have 2 missed deliveries or more.* 0 were listed/,
  ],
  [
    'makes up an id of its own',
    changing((missed) => ({ ...missed, deliveryId: `event-${missed.deliveryId}` })),
    AS_DELIVERED,
    /or it is stored twice; 'event-d1' is 'd1' by webhookDeliveryId\(\)/,
  ],
  [
    'makes up an id of what it loads apart',
    changing(({ payload, headers, ...listed }) => ({
      ...listed,
      deliveryId: `event-${listed.deliveryId}`,
      load: async () => ({ payload, headers }),
    })),
    AS_DELIVERED,
    /or it is stored twice; 'event-d1' is 'd1' by webhookDeliveryId\(\)/,
  ],
  [
    'names types in words of its own',
    changing((missed) => ({ ...missed, eventType: 'a ticket' })),
    AS_DELIVERED,
    /'d1' has 'a ticket', by resolveWebhookEvent\(\) it is 'ticket\.opened'/,
  ],
  [
    'asks on when nobody listens',
    but((sound) => ({
      async *missedWebhooks(...given: Parameters<SoundProvider['missedWebhooks']>) {
        await sound.get(given[0], '/deliveries')
        const { signal } = new AbortController()
        yield* new SoundProvider().missedWebhooks(given[0], { ...given[1], signal })
      },
    })),
    'stops asking at once when it is aborted',
    /it made 1 more requests/,
  ],
  [
    'takes a fault for the end',
    but(() => ({
      async *missedWebhooks(...given: Parameters<SoundProvider['missedWebhooks']>) {
        try {
          yield* new SoundProvider().missedWebhooks(...given)
        } catch {
          return
        }
      },
    })),
    LIST_FAULTS,
    /must throw where the provider answers 500/,
  ],
)

const never = () => new Promise<never>(() => {})

/** Each of these hangs where it has to throw: a bench that waits for less time. */
export const HANGING: readonly Broken[] = [
  ...of('HasScheduledSync: a run', [
    'hangs in the middle of a listing',
    but(() => ({
      page: (...given: Parameters<SoundProvider['page']>) =>
        new SoundProvider().page(...given).catch((error: unknown) => {
          if (statusOf(error) === 500) return never()
          throw error
        }),
    })),
    FAULTS,
    /the listing did not end within 1 s/,
  ]),
  ...of('HasOAuth2', [
    'hangs where a code is refused',
    but(() => ({
      exchangeCode: (...given: Parameters<SoundProvider['exchangeCode']>) =>
        new SoundProvider().exchangeCode(...given).catch(never),
    })),
    'fails loudly where a code, or a refresh, is refused',
    /exchangeCode\(\) did not end within 1 s/,
  ]),
  ...of('ReconcilesWebhooks', [
    'hangs where its list breaks off',
    but(() => ({
      async *missedWebhooks(...given: Parameters<SoundProvider['missedWebhooks']>) {
        try {
          yield* new SoundProvider().missedWebhooks(...given)
        } catch (error) {
          if (statusOf(error) === 500) await never()
          throw error
        }
      },
    })),
    LIST_FAULTS,
    /missedWebhooks\(\) did not end within 1 s/,
  ]),
]

/** What is unusual, and allowed: no check of the contract may fail. */
export const ALLOWED: readonly Broken[] = [
  ...of(
    'HasScheduledSync: a run',
    [
      'gives no external ids',
      dispatching((session, ticket) =>
        session.dispatch(new TicketSynced(session.integration, ticket), ticket.updated_at),
      ),
    ],
    [
      'hands each item in twice',
      dispatching(async (session, ticket) => {
        await new SoundProvider().dispatch(session, ticket)
        await new SoundProvider().dispatch(session, ticket)
      }),
    ],
    [
      'lists everything from a cursor as well, and says so',
      but((sound) => ({
        syncIncremental: (integration: Integration, session: SyncSession) => {
          session.fullListing()
          return sound.list(integration, session, { since: String(session.cursor() ?? '') })
        },
      })),
    ],
    [
      'lists by checkpoints that are no times, and says so',
      but(() => ({ listsByCheckpoint: true, dispatch: byNumber })),
    ],
    [
      'sets no bookmarks',
      but((sound) => ({
        list: async (integration: Integration, session: SyncSession, query: Record<string, string>) => {
          for (let after: string | null = ''; after !== null; ) {
            const { tickets, next } = await sound.page(integration, { ...query, after }, session.signal)
            for (const ticket of tickets) await sound.dispatch(session, ticket)
            after = next
          }
        },
      })),
    ],
    [
      'asks again by itself for what went wrong',
      but(() => ({
        page: (...given: Parameters<SoundProvider['page']>) =>
          new SoundProvider().page(...given).catch((error: unknown) => {
            if (given[2]?.aborted === true || statusOf(error) === 429) throw error
            return new SoundProvider().page(...given)
          }),
      })),
    ],
    ['has a limit of a call a second', but(() => ({ defaultRateLimit: () => RateLimit.per(1, 1) }))],
  ),
]

export const BROKEN_LISTINGS: readonly Broken[] = [...REDUCERS, ...SYNCS, ...WINDOWS, ...RECONCILIATION]
