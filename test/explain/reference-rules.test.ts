/** Rule: docs/behaviour/explain.md, "References". */
import { describe, expect, it } from 'vitest'
import {
  ALLOWED_REFERENCES,
  MAX_REFERENCE_LENGTH,
  modelIn,
  parseReference,
  ROW_KINDS,
  shownReference,
  TEXT_KINDS,
} from '../../src/explain/reference-rules.ts'
import { workflowId } from '../../src/workflows/ids.ts'

const PREFIX = 'acme'
/** Its blank at the end is the last character that a reference may have. */
const LONGEST_KEY = `${'integration:7/key:'.padEnd(MAX_REFERENCE_LENGTH - 1, 'k')} `
const text = (of: string, kinds: readonly string[] = TEXT_KINDS, integrationId: number | null = null) => ({
  kind: 'text',
  text: of,
  of: kinds,
  integrationId,
})
const row = (of: string, id: number) => ({ kind: 'row', of, id })
const newest = (of: string, integrationId: number) => ({ kind: 'newest', of, integrationId })
const ofStream = (of: string, stream: string) => ({ ...newest(of, 7), stream })

describe('a reference', () => {
  it.each(ROW_KINDS)('names a %s by its number', (kind) => {
    expect(parseReference(`${kind}:4711`, PREFIX)).toEqual(row(kind, 4711))
  })

  it.each([
    ['sync-item:12', row('item', 12)],
    ['sync_item:12', row('item', 12)],
    ['sync-run:5', row('run', 5)],
    ['evt_9', row('event', 9)],
    ['event:evt_9', row('event', 9)],
    ['  webhook:1 ', row('webhook', 1)],
    // Workflows, as ids.ts makes them, and without the prefix.
    [workflowId.syncIntegration(PREFIX, { integrationId: 7 }), newest('sync', 7)],
    [workflowId.backfillSync(PREFIX, { integrationId: 7 }), newest('backfill', 7)],
    [workflowId.syncIntegration(PREFIX, { integrationId: 7, stream: 'big-deals' }), ofStream('sync', 'big-deals')],
    [workflowId.backfillSync(PREFIX, { integrationId: 7, stream: 'contacts' }), ofStream('backfill', 'contacts')],
    ['sync:7:contacts', ofStream('sync', 'contacts')],
    ['sync:7:-a', text('sync:7:-a')],
    ['webhook-handler:4711:contacts', text('webhook-handler:4711:contacts')],
    [workflowId.incident(PREFIX, 7), newest('incident', 7)],
    [workflowId.processSyncItem(PREFIX, 12), row('item', 12)],
    [workflowId.processWebhook(PREFIX, 4711), row('webhook', 4711)],
    [workflowId.webhookHandler(PREFIX, 4711), row('webhook', 4711)],
    [workflowId.webhookHandler(PREFIX, 4711, 3), row('webhook', 4711)],
    [workflowId.refreshTokens(PREFIX, 7), row('integration', 7)],
    ['sync:7', newest('sync', 7)],
    ['backfill:7', newest('backfill', 7)],
    ['webhook-handler:4711:3', row('webhook', 4711)],
    ['refresh-tokens:7', row('integration', 7)],
    // The incident, not the workflow of an integration.
    ['incident:7', row('incident', 7)],
    // Texts.
    ['4711', text('4711')],
    ['issue:17', text('issue:17')],
    ['model:item:17', text('item:17', ['model'])],
    ['delivery:a:b', text('a:b', ['delivery'])],
    ['external:webhook:1', text('webhook:1', ['external'])],
    ['provider-request:req_1', text('req_1', ['provider-request'])],
    ['key:k-1', text('k-1', ['key'])],
    ['integration:7/external:42', text('42', ['external'], 7)],
    // An id may end in a blank. Around what a person types it is none of it.
    ['integration:7/key:order-17\n', text('order-17\n', ['key'], 7)],
    [' integration:7/external: a ', text(' a ', ['external'], 7)],
    ['key:k-1 ', text('k-1', ['key'])],
    ['integration:7/42 ', text('42', TEXT_KINDS, 7)],
    [`integration:7/key:k${' '.repeat(MAX_REFERENCE_LENGTH)}`, text('k', ['key'], 7)],
    ['integration:4711/key:k-1 ', text('k-1 ', ['key'], 4711)],
    ['integration:0/key:k-1 ', text('integration:0/key:k-1')],
    ['xintegration:7/key:k-1 ', text('xintegration:7/key:k-1')],
    [LONGEST_KEY, text(LONGEST_KEY.slice('integration:7/key:'.length), ['key'], 7)],
    [`${LONGEST_KEY} `, text(LONGEST_KEY.slice('integration:7/key:'.length).trim(), ['key'], 7)],
    ['integration:7/42', text('42', TEXT_KINDS, 7)],
    ['integration:7/a\nb', text('a\nb', TEXT_KINDS, 7)],
    // No ids of rows: texts, which are not there.
    ['webhook:0', text('webhook:0')],
    ['webhook:-1', text('webhook:-1')],
    ['webhook:1e3', text('webhook:1e3')],
    ['webhook:9007199254740993', text('webhook:9007199254740993')],
    ['webhook:99999999999999999999', text('webhook:99999999999999999999')],
    ['webhook:1;drop table x', text('webhook:1;drop table x')],
    ['Webhook:1', text('Webhook:1')],
    ['webhook:１', text('webhook:１')],
    ['integration:7/', text('integration:7/')],
    ['integration:0/42', text('integration:0/42')],
    ['xintegration:7/42', text('xintegration:7/42')],
    ['integration:4711/42', text('42', TEXT_KINDS, 4711)],
    ['integration:7/integration:8/42', text('42', TEXT_KINDS, 7)],
    ['acme:incident:7', newest('incident', 7)],
    ['acmeincident:7', text('acmeincident:7')],
    ['x'.repeat(MAX_REFERENCE_LENGTH), text('x'.repeat(MAX_REFERENCE_LENGTH))],
    ['key:', text('key:')],
    ["' or '1'='1", text("' or '1'='1")],
    ['(a+)+$', text('(a+)+$')],
    ['__proto__:1', text('__proto__:1')],
    ['constructor:1', text('constructor:1')],
    ['other:sync:7', text('other:sync:7')],
    // As long as the prefix.
    ['acne:sync:7', text('acne:sync:7')],
    ['incident:7:2', text('incident:7:2')],
  ])('%j', (given, reference) => {
    expect(parseReference(given, PREFIX)).toEqual(reference)
  })

  it.each([
    ['', 'empty'],
    [' \n\t', 'empty'],
    ['a\u0000b', 'U+0000'],
    ['half \ud800', 'surrogate'],
    ['x'.repeat(MAX_REFERENCE_LENGTH + 1), `at most ${MAX_REFERENCE_LENGTH}`],
    ['x'.repeat(10_000_000), `at most ${MAX_REFERENCE_LENGTH}`],
    [undefined, 'undefined was given'],
    [null, 'null was given'],
    [4711, 'number was given'],
    [{}, 'object was given'],
  ])('is refused: %#', (given, why) => {
    const reference = parseReference(given, PREFIX)
    expect(reference.kind).toBe('refused')
    expect(reference).toMatchObject({ why: expect.stringContaining(why) })
  })

  it('is shown on one line, cut', () => {
    expect(shownReference('a\nb\u001b[31m\u202e')).toBe('"a\\nb\\u001b[31m\ufffd"')
    expect(shownReference('x'.repeat(100))).toBe(`"${'x'.repeat(100)}"`)
    expect(shownReference(4711)).toBe('"4711"')
    expect(shownReference(null)).toBe('"null"')
    expect(shownReference('x'.repeat(200))).toBe(`"${'x'.repeat(100)}…"`)
  })

  it.each([
    ['issue:17', { type: 'issue', id: '17' }],
    ['issue:a:b', { type: 'issue', id: 'a:b' }],
    [':17', null],
    ['i:17', { type: 'i', id: '17' }],
    ['issue:', null],
    ['17', null],
  ])('as a host’s row: %j', (given, model) => {
    expect(modelIn(given)).toEqual(model)
  })
})

it('the list of what is allowed names each kind', () => {
  for (const kind of [...ROW_KINDS, ...TEXT_KINDS]) expect(ALLOWED_REFERENCES).toContain(`${kind}:`)
  expect(ALLOWED_REFERENCES).toContain('the id of a workflow')
  expect(ALLOWED_REFERENCES).toContain('integration:7/')
})
