/** The events of a timeline: every published kind in the shape that all have in common. */
import { describe, expect, it } from 'vitest'
import { description } from '../../../sandbox/github/description.ts'
import { AnsweredTimelineEvent, GitHubTimelineEvent, TIMELINE_EVENTS } from '../../../src/adapters/github/timeline.ts'
import { violations } from '../../sandbox/published-description.ts'

const API = 'https://api.github.com'
const AT = '2026-01-02T03:04:05Z'
const UNIX = Date.parse(AT) / 1_000
const SHA = 'a'.repeat(40)
const operation = 'GET /repos/{owner}/{repo}/issues/{issue_number}/timeline'

const octocat = user(1, 'octocat')
const label = { name: 'bug', color: 'f29513' }
const referred = { id: 8, node_id: 'I_8', url: `${API}/repos/o/r/issues/8`, number: 8, title: 'Other', state: 'open' }

/** What an event of the kind has beside the keys of all; its answer as GitHub documents it. */
const OF_KIND: Readonly<Record<string, Record<string, unknown>>> = {
  labeled: { label },
  unlabeled: { label },
  assigned: { assignee: octocat },
  unassigned: { assignee: null },
  milestoned: { milestone: { title: 'v1' } },
  demilestoned: { milestone: { title: 'v1' } },
  renamed: { rename: { from: 'Old', to: 'New' } },
  locked: { lock_reason: 'resolved' },
  closed: { state_reason: 'completed', commit_id: SHA, commit_url: `${API}/repos/o/r/commits/${SHA}` },
  reopened: { state_reason: null },
  referenced: { commit_id: SHA, commit_url: `${API}/repos/o/r/commits/${SHA}` },
  review_requested: { review_requester: octocat, requested_reviewer: octocat },
  review_request_removed: { review_requester: octocat, requested_reviewer: octocat },
  review_dismissed: { dismissed_review: { state: 'approved', review_id: 3, dismissal_message: null } },
}

function ordinary(event: string): Record<string, unknown> {
  return {
    id: 6_430_295_168,
    node_id: 'EV_1',
    url: `${API}/repos/o/r/issues/events/6430295168`,
    actor: octocat,
    event,
    commit_id: null,
    commit_url: null,
    created_at: AT,
    performed_via_github_app: null,
    ...OF_KIND[event],
  }
}

/** Kinds whose events have other keys than the ordinary ones. */
const PECULIAR = ['committed', 'cross-referenced', 'reviewed', 'commented']

describe('an event', () => {
  it.each(TIMELINE_EVENTS.filter((event) => !PECULIAR.includes(event)))('of the kind %s', (event) => {
    const raw = ordinary(event)
    expect(violations(operation, 200, [raw])).toEqual([])
    expect(read(raw)).toEqual({ ...raw, id: '6430295168' })
  })

  it('that is a comment has its text', () => {
    const raw = { ...ordinary('commented'), user: octocat, body: 'Hello', issue_url: '', html_url: '', updated_at: AT }
    expect(read(raw)).toMatchObject({
      id: '6430295168',
      event: 'commented',
      body: 'Hello',
      actor: { login: 'octocat' },
    })
  })

  it('that is a commit has its SHA for an id, the committer‘s time, and no account', () => {
    const person = { name: 'Ada', email: 'ada@example.com', date: AT }
    const link = { sha: SHA, url: `${API}/x`, html_url: `${API}/x` }
    const raw = {
      ...{ event: 'committed', sha: SHA, node_id: 'C_1', url: `${API}/x`, html_url: `${API}/x`, message: 'm' },
      ...{
        author: { ...person, date: '2020-01-01T00:00:00Z' },
        committer: person,
        tree: { sha: SHA, url: `${API}/x` },
      },
      parents: [link],
      verification: { verified: false, reason: 'unsigned', signature: null, payload: null, verified_at: null },
    }
    expect(violations(operation, 200, [raw])).toEqual([])
    expect(read(raw)).toEqual({ ...raw, id: SHA, created_at: AT, actor: null })
  })

  it('that is a review has its reviewer for an actor, and the time it was submitted', () => {
    const raw = {
      ...{ id: 80, node_id: 'R_1', event: 'reviewed', user: octocat, body: 'Fine', state: 'approved', commit_id: SHA },
      ...{ html_url: `${API}/x`, pull_request_url: `${API}/x`, author_association: 'MEMBER', submitted_at: AT },
      _links: { html: { href: `${API}/x` }, pull_request: { href: `${API}/x` } },
    }
    expect(violations(operation, 200, [raw])).toEqual([])
    expect(read(raw)).toEqual({ ...raw, id: '80', created_at: AT, actor: octocat, url: null })
  })

  it.each([
    ['issue', {}],
    ['pull_request', { pull_request: { url: `${API}/x` } }],
  ])('that is a reference from an %s is named by its source and its time', (type, more) => {
    const source = { type: 'issue', issue: { ...referred, ...more } }
    const raw = { event: 'cross-referenced', actor: octocat, created_at: AT, updated_at: AT, source }
    expect(read(raw)).toEqual({
      ...raw,
      id: `xref-8-${UNIX}`,
      url: null,
      node_id: null,
      source_type: type,
      source_number: 8,
    })
  })

  it('of several comments on a line has the node id for an id, and the time of the first one', () => {
    const raw = { event: 'line-commented', node_id: 'L_1', comments: [{ created_at: AT }, {}] }
    expect(read(raw)).toMatchObject({ id: 'L_1', event: 'unknown', raw_event: 'line-commented', created_at: AT })
  })

  it.each([
    ['a new kind', 'teleported', 'teleported'],
    ['a kind named as a key of objects', 'constructor', 'constructor'],
    ['no kind', undefined, ''],
  ])('of %s is unknown, and passes with what it has', (_, event, rawEvent) => {
    const raw = { ...ordinary('labeled'), event, something: { new: true } }
    expect(read(raw)).toMatchObject({
      event: 'unknown',
      raw_event: rawEvent,
      something: { new: true },
      id: '6430295168',
    })
  })

  it('of a deleted account has no actor', () => {
    expect(read({ ...ordinary('labeled'), actor: null }).actor).toBeNull()
  })

  it('without id, time, node and source is still one', () => {
    expect(read({ event: 'pinned' })).toMatchObject({ id: 'pinned-0', event: 'pinned', created_at: null })
  })

  it('whose id is a text keeps it', () => {
    expect(read({ ...ordinary('pinned'), id: 'PI_7' }).id).toBe('PI_7')
  })
})

it('has one of 52 kinds, each named once', () => {
  expect(new Set(TIMELINE_EVENTS).size).toBe(TIMELINE_EVENTS.length)
  expect(TIMELINE_EVENTS).toHaveLength(52)
})

/** Read twice: what is stored is read again. */
function read(raw: unknown): GitHubTimelineEvent {
  const event = AnsweredTimelineEvent.parse(raw)
  expect(GitHubTimelineEvent.parse(JSON.parse(JSON.stringify(event)))).toEqual(event)
  return event
}

function user(id: number, login: string) {
  const published = description.components.schemas?.['simple-user'] ?? {}
  const { required } = published as { required: string[] }
  const urls = Object.fromEntries(required.map((key) => [key, `${API}/users/${login}`]))
  return { ...urls, id, login, node_id: `U_${id}`, gravatar_id: '', type: 'User', site_admin: false }
}
