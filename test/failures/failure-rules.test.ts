/** Rule: docs/behaviour/failures.md, "Groups". */
import { describe, expect, it } from 'vitest'
import { groupId, isGroupId, MAX_LOOKED_AT, normalisedError, waitingWords } from '../../src/failures/failure-rules.ts'

describe('a normalised error', () => {
  it.each([
    ['a\u0000b', 'a b'],
    // Numbers.
    ['no order 17', 'no order <n>'],
    ['no order 1234567', 'no order <n>'],
    ['took 12.5 of 30 seconds', 'took <n> of <n> seconds'],
    ['balance is -3,000.50', 'balance is <n>'],
    ['row #42 (of 99)', 'row #<n> (of <n>)'],
    ['after 30ms', 'after <id>'],
    // Statuses stay.
    ['HttpError: HTTP 404 for order 17', 'HttpError: HTTP 404 for order <n>'],
    ['Request failed with status code 503', 'Request failed with status code 503'],
    ['status: 429, 12 left', 'status: 429, <n> left'],
    ['ProviderHttpError: The provider answered 502.', 'ProviderHttpError: The provider answered 502.'],
    ['The provider answered 403.', 'The provider answered 403.'],
    ['it answered with 404, twice', 'it answered with 404, twice'],
    ['answered 12 of 500 questions', 'answered <n> of <n> questions'],
    ['code=500 of 7', 'code=500 of <n>'],
    ['status 5000 of 7', 'status <n> of <n>'],
    ['HTTP 404 then HTTP 500', 'HTTP 404 then HTTP 500'],
    // Ids.
    ['no customer cus_9s6XKzkNRiz8i3', 'no customer <id>'],
    ['order-17 is gone', '<id> is gone'],
    ['order-17-b is gone', '<id> is gone'],
    ['issue_17: closed', '<id>: closed'],
    ['at 0xDEADBEEF01', 'at <id>'],
    ['key 6f1ed002ab5595859014ebf0951522d9', 'key <id>'],
    ['no run 3f2504e0-4f89-11d3-9a0c-0305e82c3301', 'no run <uuid>'],
    ['no run 3F2504E0-4F89-11D3-9A0C-0305E82C3301!', 'no run <uuid>!'],
    // Words that say what failed.
    ['oauth2 with sha256 over http2 and ipv6', 'oauth2 with sha256 over http2 and ipv6'],
    ['v2 is gone', 'v2 is gone'],
    ['ECONNREFUSED', 'ECONNREFUSED'],
    // Quoted texts.
    ['no user "Ada"', 'no user <text>'],
    ['no user "Ada \\"L.\\""', 'no user <text>'],
    ["no user 'Ada'", 'no user <text>'],
    ["can't find user 'Ada', won't try", "can't find user <text>, won't try"],
    ["it's the customer's", "it's the customer's"],
    ['no column `name`', 'no column <text>'],
    ['no user “Ada”, ‘Bob’ or «Eve»', 'no user <text>, … or <text>'],
    ['answered {"id":17,"name":"x"}', 'answered {<text>:<n>,<text>:<text>}'],
    ['answered {"id":"abc', 'answered {<text>:<text>'],
    // Names of the database's own.
    [
      'new row for relation "issues" violates check constraint "issues_title_length" (23514)',
      'new row for relation "issues" violates check constraint "issues_title_length" (<n>)',
    ],
    [
      'duplicate key (email)=("ada@acme.test") of index "people_email_key"',
      'duplicate key (email)=(<text>) of index "people_email_key"',
    ],
    ['no column "Ada Lovelace" in a table', 'no column <text> in a table'],
    ['he said \'no table "x" here\', twice', 'he said <text>, twice'],
    // URLs, addresses, moments.
    ['GET https://api.acme.test/v1/orders/17?x=1 failed', 'GET <url> failed'],
    ['(see https://docs.acme.test/errors)', '(see <url>)'],
    ['postgres://user@db:5432/x is away', '<url> is away'],
    ['connect ECONNREFUSED 10.0.0.7:5432', 'connect ECONNREFUSED <address>'],
    ['no mailbox ada.l+1@acme.test', 'no mailbox <email>'],
    ['(ada@acme.test, bob@acme.test)', '(<email>, …)'],
    ['expired at 2031-06-01T12:00:00.000Z', 'expired at <time>'],
    ['expired at 2031-06-01 12:00:00+02:00', 'expired at <time>'],
    ['expired on 2031-06-01', 'expired on <time>'],
    ['expired at 2031-06-01T12:00', 'expired at <time>'],
    ['expired at 2031-06-01 12:00:00', 'expired at <time>'],
    ['expired at 2031-06-01T12:00:00+0200', 'expired at <time>'],
    ['expired at 2031-06-01T12:00 Z', 'expired at <time>'],
    ['expired on 2031-06-01x', 'expired on <id>'],
    ['no mailbox ada@mail.eu.acme.test', 'no mailbox <email>'],
    ['connect to 10.0.0.127', 'connect to <address>'],
    ['connect to 10.0.0.127:80', 'connect to <address>'],
    ['mysha256 failed', '<id> failed'],
    ['sha256x failed', '<id> failed'],
    ['v17 is gone', 'v17 is gone'],
    ['HTTP 404.5 and HTTP 40412', 'HTTP <n> and HTTP <n>'],
    ['HTTP 404. Then 7', 'HTTP 404. Then <n>'],
    ['HTTP 404, then 7', 'HTTP 404, then <n>'],
    ['said "HTTP 404" then HTTP 500', 'said <text> then HTTP <n>'],
    // Lists.
    ['missing: "a","b"', 'missing: <text>, …'],
    ['missing: "a" , "b"', 'missing: <text>, …'],
    ['missing: "a", "b", "c"', 'missing: <text>, …'],
    ['ids 1, 2, 3 are gone', 'ids <n>, … are gone'],
    // White space and nothing.
    ['  two\n  lines\t here ', 'two lines here'],
    ['', '<no error>'],
    [' \n ', '<no error>'],
    [null, '<no error>'],
    // Scripts without our letters.
    ['Bestellung 17 fehlt für Ärzte', 'Bestellung <n> fehlt für Ärzte'],
    ['注文 17 がありません', '注文 <n> がありません'],
    ['\u0000\u0000 HTTP 404', 'HTTP 404'],
  ])('of %j is %j', (error, normalised) => {
    expect(normalisedError(error)).toBe(normalised)
  })

  it.each([
    ['no order 1', 'no order 99999'],
    ['no order ord_1a', 'no order ord_9s6XKzkNRiz8i3'],
    ['lists 1, 2', 'lists 1, 2, 3, 4'],
    ['GET https://a.test/1: HTTP 500', 'GET https://b.test/2/3?c=d: HTTP 500'],
    ['bad "a"', "bad 'b'"],
  ])('is the same for %j and %j', (one, other) => {
    expect(normalisedError(one)).toBe(normalisedError(other))
  })

  it.each([
    ['HTTP 404', 'HTTP 500'],
    ['no order 1', 'no user 1'],
    ['TypeError: x is undefined', 'RangeError: x is undefined'],
  ])('is another one for %j and %j', (one, other) => {
    expect(normalisedError(one)).not.toBe(normalisedError(other))
  })

  it('is of the beginning alone', () => {
    const beginning = 'x '.repeat(MAX_LOOKED_AT / 2)
    expect(normalisedError(`${beginning}one`)).toBe(normalisedError(`${beginning}another`))
  })

  it('is stable: what is normalised stays as it is', () => {
    for (const error of ['no order 17', 'GET https://a.test/1: HTTP 500', 'missing: "a", "b"', 'x cus_1a2b'])
      expect(normalisedError(normalisedError(error))).toBe(normalisedError(error))
  })

  it.each([
    ['"'.repeat(300)],
    ["'".repeat(300)],
    ['\\'.repeat(300)],
    ['1'.repeat(300)],
    ['a1-'.repeat(100)],
    ['a-'.repeat(150)],
    ['1.'.repeat(150)],
    ['x@'.repeat(150)],
    [`${'a.'.repeat(150)}@`],
    ['<n>, '.repeat(60)],
    ['http://'.repeat(43)],
    ['status code '.repeat(25)],
    ['\u0000'.repeat(300)],
    [String.raw`"\\"`.repeat(60)],
    ['1'.repeat(1_000_000)],
  ])('comes at once, whatever it is of', (hostile) => {
    const startedAt = performance.now()
    for (let time = 0; time < 20; time += 1) normalisedError(hostile)
    expect(performance.now() - startedAt).toBeLessThan(500)
  })
})

describe('the id of a group', () => {
  it('is the same tomorrow', () => {
    expect(groupId('item', 'no order <n>')).toBe('4a1455072f6a')
  })

  it('is another one for another kind, and for another failure class', () => {
    const ids = [
      groupId('item', 'x'),
      groupId('webhook', 'x'),
      groupId('request', 'x', 'client'),
      groupId('request', 'x', 'upstream'),
    ]
    expect(new Set(ids).size).toBe(4)
  })

  it.each([
    ['0123456789ab', true],
    ['0123456789AB', false],
    ['0123456789a', false],
    ['0123456789abc', false],
    ['0123456789ab\n', false],
    ["' or 1=1 --", false],
    [17, false],
    [123_456_789_012, false],
    [null, false],
  ])('%j is one: %s', (given, is) => {
    expect(isGroupId(given)).toBe(is)
  })
})

describe('items that wait for their next try', () => {
  it.each([
    [{ count: 1, truncated: false }, '1 item has failed and waits for its next try, most often after: Error: x.'],
    [{ count: 2, truncated: false }, '2 items have failed and wait for their next try, most often after: Error: x.'],
    [
      { count: 4_000, truncated: true },
      'At least 4000 items have failed and wait for their next try, most often after: Error: x.',
    ],
  ])('%j in a sentence', (items, sentence) => {
    expect(waitingWords({ ...items, error: 'Error: x' })).toBe(sentence)
  })
})
