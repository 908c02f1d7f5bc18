import { beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import type { EventKey } from '../../src/events/listeners.ts'
import { Listeners } from '../../src/events/listeners.ts'
import type { Logger } from '../../src/framework/logger.ts'
import type { Integration } from '../../src/providers/integration.ts'
import type { ProviderEventClass, SyncItemEventClass } from '../../src/providers/provider-events.ts'
import { ProviderEvent, SyncItemEvent } from '../../src/providers/provider-events.ts'

const integration = { id: 7, provider: 'github', name: 'ours' } as Integration
const created = { integration }

class WebhookReceived extends ProviderEvent {
  static override readonly type: string = 'test.webhook'
}

class IssueOpened extends WebhookReceived {
  static override readonly type: string = 'test.issue_opened'
}

/** A base of a host's own, without a type of its own. */
abstract class Item extends SyncItemEvent<{ id: number }> {
  declare static readonly type: string
}

class Issue extends Item {
  static override readonly type: string = 'test.issue'
  static override readonly schema = z.object({ id: z.number() })
}

class PullRequest extends Issue {
  static override readonly type: string = 'test.pull_request'
}

class Comment extends Item {
  static override readonly type: string = 'test.comment'
}

interface LoggedLine {
  fields: Record<string, unknown>
  message: string
}

/** Abstract classes are listened to by hosts in JavaScript; `on()` is typed for concrete ones. */
const ANY_ITEM = SyncItemEvent as unknown as SyncItemEventClass
const ANY_PROVIDER_EVENT = ProviderEvent as unknown as ProviderEventClass
const ITEM_BASE = Item as unknown as SyncItemEventClass

let errors: LoggedLine[]
let listeners: Listeners
let heard: string[]

const silent = () => {}
/** Keeps errors only. */
const silentLogger: Logger = {
  debug: silent,
  info: silent,
  warn: silent,
  error: (fields, message) => errors.push({ fields, message }),
}

beforeEach(() => {
  errors = []
  heard = []
  listeners = new Listeners(silentLogger)
})

const hears = (name: string) => () => {
  heard.push(name)
}

/** Ends a turn of the event loop later than its sibling began, so that an order without waiting would show. */
const hearsLate = (name: string) => async () => {
  heard.push(`${name} begins`)
  await new Promise((resolve) => setImmediate(resolve))
  heard.push(`${name} ends`)
}

const throws = (thrown: unknown) => () => {
  throw thrown
}

describe('the order of listeners', () => {
  it('is by order, then by registration', async () => {
    listeners.on('IntegrationCreated', hears('late'), { order: 10 })
    listeners.on('IntegrationCreated', hears('first of 0'))
    listeners.on('IntegrationCreated', hears('second of 0'), { order: 0 })
    listeners.on('IntegrationCreated', hears('early'), { order: -1 })
    listeners.on('IntegrationCreated', hears('third of 0'))
    await listeners.emit('IntegrationCreated', created)
    expect(heard).toEqual(['early', 'first of 0', 'second of 0', 'third of 0', 'late'])
  })

  it('awaits each, of framework events and of items', async () => {
    listeners.on('IntegrationCreated', hearsLate('a'))
    listeners.on('IntegrationCreated', hearsLate('b'))
    await listeners.emit('IntegrationCreated', created)
    listeners.on(Issue, hearsLate('c'))
    listeners.on(Issue, hearsLate('d'))
    await listeners.deliver(new Issue(integration, { id: 1 }))
    expect(heard).toEqual(['a', 'b', 'c', 'd'].flatMap((name) => [`${name} begins`, `${name} ends`]))
  })

  it('mixes listeners of a class and of its parents', async () => {
    listeners.on(Issue, hears('of the class'), { order: 2 })
    listeners.on(ANY_ITEM, hears('of every item'), { order: 1 })
    listeners.on(ITEM_BASE, hears('of the base'), { order: 3 })
    await listeners.deliver(new Issue(integration, { id: 1 }))
    expect(heard).toEqual(['of every item', 'of the class', 'of the base'])
  })
})

describe('whom an event reaches', () => {
  it('reaches its own name only', async () => {
    listeners.on('IntegrationCreated', hears('created'))
    listeners.on('CredentialsUpdated', hears('updated'))
    await listeners.emit('IntegrationCreated', created)
    expect(heard).toEqual(['created'])
  })

  it('hands the payload over', async () => {
    const payloads: unknown[] = []
    listeners.on('IntegrationCreated', (payload) => payloads.push(payload))
    await listeners.emit('IntegrationCreated', created)
    expect(payloads).toEqual([created])
  })

  it.each([
    ['its class', new IssueOpened(integration), ['ProviderEvent', 'WebhookReceived', 'IssueOpened']],
    ['its parents, not its children', new WebhookReceived(integration), ['ProviderEvent', 'WebhookReceived']],
  ])('of a provider reaches listeners of %s', async (_, event, names) => {
    listeners.on(ANY_PROVIDER_EVENT, hears('ProviderEvent'))
    listeners.on(WebhookReceived, hears('WebhookReceived'))
    listeners.on(IssueOpened, hears('IssueOpened'))
    listeners.on(Issue, hears('Issue'))
    await listeners.deliver(event)
    expect(heard).toEqual(names)
  })

  it.each([
    ['a subclass', new PullRequest(integration, { id: 1 }), ['SyncItemEvent', 'Item', 'Issue', 'PullRequest']],
    ['a sibling', new Comment(integration, { id: 1 }), ['SyncItemEvent', 'Item']],
  ])('of an item reaches listeners of its parents: %s', async (_, event, names) => {
    listeners.on(ANY_ITEM, hears('SyncItemEvent'))
    listeners.on(ITEM_BASE, hears('Item'))
    listeners.on(Issue, hears('Issue'))
    listeners.on(PullRequest, hears('PullRequest'))
    await listeners.deliver(event)
    expect(heard).toEqual(names)
  })

  it('calls a listener as often as it is registered', async () => {
    const listener = hears('once')
    listeners.on('IntegrationCreated', listener)
    listeners.on('IntegrationCreated', listener)
    await listeners.emit('IntegrationCreated', created)
    expect(heard).toEqual(['once', 'once'])
  })

  it('is well without any', async () => {
    await listeners.emit('IntegrationCreated', created)
    await listeners.deliver(new Issue(integration, { id: 1 }))
    expect(errors).toEqual([])
    expect(listeners.has('IntegrationCreated')).toBe(false)
  })

  it('tells whether anybody listens', () => {
    listeners.on('SyncCompleted', hears('completed'))
    expect(listeners.has('SyncCompleted')).toBe(true)
    expect(listeners.has('SyncItemFailed')).toBe(false)
  })
})

describe('off', () => {
  it('removes that listener of that key, once', async () => {
    const listener = hears('a')
    listeners.on('IntegrationCreated', listener)
    listeners.on('IntegrationCreated', listener)
    listeners.on('IntegrationCreated', hears('b'))
    listeners.on(WebhookReceived, listener)
    listeners.off('IntegrationCreated', listener)
    await listeners.emit('IntegrationCreated', created)
    await listeners.deliver(new WebhookReceived(integration))
    expect(heard).toEqual(['a', 'b', 'a'])
  })

  it('of one that is unknown does nothing', async () => {
    listeners.on('IntegrationCreated', hears('a'))
    listeners.off('IntegrationCreated', hears('a'))
    listeners.off(WebhookReceived, hears('a'))
    await listeners.emit('IntegrationCreated', created)
    expect(heard).toEqual(['a'])
  })

  it('does not disturb the event under way', async () => {
    const second = hears('second')
    listeners.on('IntegrationCreated', () => listeners.off('IntegrationCreated', second))
    listeners.on('IntegrationCreated', second)
    listeners.on('IntegrationCreated', hears('third'))
    await listeners.emit('IntegrationCreated', created)
    expect(heard).toEqual(['second', 'third'])
  })
})

describe('a listener of a framework event that throws', () => {
  it.each<[string, unknown, string]>([
    ['an error', new TypeError('boom'), 'TypeError: boom'],
    ['a text', 'boom', 'boom'],
    ['nothing', undefined, 'undefined'],
    ['what has no text', Object.create(null), 'object'],
  ])('%s is logged, and the others still run', async (_, thrown, line) => {
    listeners.on('IntegrationCreated', hears('before'))
    listeners.on('IntegrationCreated', throws(thrown))
    listeners.on('IntegrationCreated', hears('after'))
    await listeners.emit('IntegrationCreated', created)
    expect(heard).toEqual(['before', 'after'])
    expect(errors).toEqual([
      {
        fields: { event: 'IntegrationCreated', integration: 7, provider: 'github', error: line },
        message: expect.stringContaining('threw'),
      },
    ])
  })

  it('later, in its promise, is logged too', async () => {
    listeners.on('IntegrationCreated', async () => Promise.reject(new Error('boom')))
    listeners.on('IntegrationCreated', hears('after'))
    await listeners.emit('IntegrationCreated', created)
    expect(heard).toEqual(['after'])
    expect(errors).toHaveLength(1)
  })
})

describe('a listener of a provider event or an item that throws', () => {
  it.each<[string, ProviderEvent | SyncItemEvent<unknown>, EventKey]>([
    ['an item', new Issue(integration, { id: 1 }), ANY_ITEM],
    ['a webhook', new WebhookReceived(integration), ANY_PROVIDER_EVENT],
  ])('ends the delivery of %s with what it threw', async (_, event, key) => {
    const boom = new Error('boom')
    listeners.on(key, hears('before'))
    listeners.on(key, async () => Promise.reject(boom))
    listeners.on(key, hears('after'))
    await expect(listeners.deliver(event)).rejects.toBe(boom)
    expect(heard).toEqual(['before'])
    expect(errors).toEqual([])
  })
})

describe('a queued listener of an item', () => {
  it.each<[string, EventKey, boolean]>([
    ['of the class itself', Issue, true],
    ['of a parent', ITEM_BASE, true],
    ['of all items', ANY_ITEM, true],
    ['of a child', PullRequest, false],
    ['of a sibling', Comment, false],
  ])('is found %s', (_, key, found) => {
    listeners.on(key, hears('x'), { queued: true })
    expect(listeners.hasQueuedItemListener(Issue)).toBe(found)
  })

  it('is not seen in one that is not queued, or that went off', () => {
    const listener = hears('x')
    listeners.on(Issue, hears('y'))
    expect(listeners.hasQueuedItemListener(Issue)).toBe(false)
    listeners.on(Issue, listener, { queued: true })
    listeners.off(Issue, listener)
    expect(listeners.hasQueuedItemListener(Issue)).toBe(false)
  })
})

describe('a queued listener of a framework event', () => {
  it('is not told at once, and makes the event durable', async () => {
    const wakes: string[] = []
    listeners = new Listeners(silentLogger, { isTold: () => false, wake: () => void wakes.push('outbox') })
    listeners.on('IntegrationCreated', hears('at once'))
    expect(listeners.isDurable('IntegrationCreated')).toBe(false)
    await listeners.emit('IntegrationCreated', created)
    expect(wakes).toEqual([])
    listeners.on('IntegrationCreated', hears('later'), { queued: true })
    expect(listeners.isDurable('IntegrationCreated')).toBe(true)
    expect(listeners.has('IntegrationCreated')).toBe(true)
    expect(listeners.isDurable('CredentialsUpdated')).toBe(false)
    await listeners.emit('IntegrationCreated', created)
    expect(heard).toEqual(['at once', 'at once'])
    expect(wakes).toEqual(['outbox'])
  })

  it('is named by its option, else by its function, and no two of one event are named alike', () => {
    function report() {}
    const named = (): string[] => listeners.queuedFor('SyncCompleted').map(({ name }) => name)
    listeners.on('SyncCompleted', report, { queued: true, order: 5 })
    listeners.on('SyncCompleted', report, { queued: true })
    listeners.on('SyncCompleted', () => {}, { queued: true, order: 7 })
    listeners.on('SyncCompleted', () => {}, { queued: true, order: 8, name: 'report' })
    listeners.on('SyncCompleted', report)
    listeners.on('SyncItemStuck', report, { queued: true })
    expect(named()).toEqual(['report#2', 'report', 'anonymous', 'report#3'])
    expect(listeners.queuedFor('SyncItemStuck')).toEqual([
      expect.objectContaining({ name: 'report', listener: report }),
    ])
    listeners.off('SyncCompleted', report)
    listeners.on('SyncCompleted', report, { queued: true, order: 9 })
    expect(named()).toEqual(['report', 'anonymous', 'report#3', 'report#2'])
  })

  it.each(['', '  ', 'a'.repeat(101), 'a\u0000b', 'a\ud800'])('is refused with the name %j', (name) => {
    expect(() => listeners.on('SyncCompleted', hears('x'), { queued: true, name })).toThrow(/name.*1 to 100 characters/)
    expect(listeners.has('SyncCompleted')).toBe(false)
  })

  it.each<[string, EventKey]>([
    ['of one call', 'RequestFailed'],
    ['of one operation', 'OperationCompleted'],
    ['of which nothing is stored', 'OAuthFailed'],
    ['of a provider', ANY_PROVIDER_EVENT],
  ])('is refused for an event %s', (_, key) => {
    expect(() => listeners.on(key, hears('x'), { queued: true })).toThrow(/IncidentOpened.*was given; leave it out/)
    expect(listeners.hasQueuedItemListener(Issue)).toBe(false)
  })
})

describe('the classes of stored items', () => {
  it('are known by their type once somebody listens or the provider names them', () => {
    listeners.on(Issue, hears('x'))
    listeners.registerItemClass(Comment)
    expect(listeners.itemClass('test.issue')).toBe(Issue)
    expect(listeners.itemClass('test.comment')).toBe(Comment)
    expect(listeners.itemClass('test.pull_request')).toBe(null)
    expect(listeners.itemClass('constructor')).toBe(null)
  })

  it('may be registered twice', () => {
    listeners.registerItemClass(Issue)
    listeners.on(Issue, hears('x'))
    listeners.on(Issue, hears('y'))
    expect(listeners.itemClass('test.issue')).toBe(Issue)
  })

  it.each([0, 256])('are refused with a type of %i characters, which no column holds', (length) => {
    class Long extends Item {
      static override readonly type: string = 'x'.repeat(length)
    }
    expect(() => listeners.registerItemClass(Long)).toThrow(/1 to 255 characters is allowed/)
  })

  it('are refused when two claim one type', () => {
    class AnotherIssue extends Item {
      static override readonly type: string = 'test.issue'
    }
    listeners.registerItemClass(Issue)
    const refusal = expect.objectContaining({
      code: 'invalid_argument',
      message: expect.stringContaining('two classes claim the type "test.issue"'),
    })
    expect(() => listeners.registerItemClass(AnotherIssue)).toThrow(refusal)
    expect(() => listeners.on(AnotherIssue, hears('x'))).toThrow(refusal)
    expect(listeners.itemClass('test.issue')).toBe(Issue)
  })

  it('do not include bases, whether or not they declare a type', async () => {
    abstract class DeclaresType extends SyncItemEvent<null> {
      static override readonly type: string
    }
    class Thing extends DeclaresType {
      static override readonly type: string = 'test.thing'
    }
    for (const base of [ANY_ITEM, ITEM_BASE, DeclaresType as unknown as SyncItemEventClass])
      listeners.on(base, hears('base'))
    listeners.on(Thing, hears('thing'))
    expect(listeners.itemClass(String(undefined))).toBe(null)
    await listeners.deliver(new Thing(integration, null))
    expect(heard).toEqual(['base', 'base', 'thing'])
  })
})
