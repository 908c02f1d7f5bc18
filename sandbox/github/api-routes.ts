import type { Context } from 'hono'
import { Hono } from 'hono'
import type { AnswerContext } from './answers.ts'
import { commentAnswer, issueEntry, repositoryAnswer, singleIssue, timelineAnswer, viewerAnswer } from './answers.ts'
import type { SandboxIssue } from './dataset.ts'
import { notForInstallations, notFound, validationFailed } from './failures.ts'
import { hookRoutes } from './hook-routes.ts'
import { issueEdit, parseBody } from './issue-input.ts'
import { listComments, listIssueComments, listIssues } from './listing.ts'
import { paginate } from './paging.ts'
import type { Answer } from './recorded.ts'
import { bodyFormat } from './rendered-body.ts'
import { requireRepository } from './requested-repository.ts'
import type { SandboxEnv, SandboxState } from './sandbox-state.ts'
import type { Editing } from './told-edits.ts'
import { commentAndTell, editAndTell, openAndTell } from './told-edits.ts'

const REPOSITORY = '/repos/{owner}/{repo}'
const ISSUES = `${REPOSITORY}/issues`
const ISSUE = `${ISSUES}/{issue_number}`
const COMMENTS = `${ISSUE}/comments`
const TIMELINE = `${ISSUE}/timeline`

/** The operations of the REST API, named by their paths in the published description. */
export function apiRoutes(state: SandboxState): Hono<SandboxEnv> {
  const app = new Hono<SandboxEnv>()
  app.get('/user', (c) => {
    if (c.get('caller').kind === 'installation') throw notForInstallations('GET', '/user')
    return c.json(viewerAnswer(answerContext(c, state)))
  })
  app.route('/repos/:owner/:repo', repositoryRoutes(state))
  app.route('/repositories/:repositoryId', repositoryRoutes(state))
  return app
}

function repositoryRoutes(state: SandboxState): Hono {
  const app = new Hono()
  app.route('/hooks', hookRoutes(state))

  app.get('/', (c) => {
    requireRepository(c, state, 'GET', REPOSITORY)
    return c.json(repositoryAnswer(answerContext(c, state)))
  })

  app.get('/issues', (c) => {
    requireRepository(c, state, 'GET', ISSUES)
    return page(c, state, '/issues', listIssues(state.dataset, queryOf(c)), issueEntry)
  })

  app.post('/issues', async (c) => {
    requireRepository(c, state, 'POST', ISSUES)
    const edit = issueEdit(parseBody(await c.req.text(), 'POST', ISSUES), state.dataset, 'POST', ISSUES)
    if (edit.title === undefined) {
      throw validationFailed([{ resource: 'Issue', field: 'title', code: 'missing_field' }], 'POST', ISSUES)
    }
    const issue = openAndTell(byApi(c, state), { ...edit, title: edit.title })
    return created(c, singleIssue(issue, answerContext(c, state)))
  })

  app.get('/issues/comments', (c) => {
    requireRepository(c, state, 'GET', `${ISSUES}/comments`)
    return page(c, state, '/issues/comments', listComments(state.dataset, queryOf(c)), commentAnswer)
  })

  app.get('/issues/:number', (c) => {
    const issue = requireIssue(c, state, 'GET', ISSUE)
    return c.json(singleIssue(issue, answerContext(c, state)))
  })

  app.patch('/issues/:number', async (c) => {
    const issue = requireIssue(c, state, 'PATCH', ISSUE)
    const edit = issueEdit(parseBody(await c.req.text(), 'PATCH', ISSUE), state.dataset, 'PATCH', ISSUE)
    editAndTell(byApi(c, state), issue, edit)
    return c.json(singleIssue(issue, answerContext(c, state)))
  })

  app.get('/issues/:number/comments', (c) => {
    const issue = requireIssue(c, state, 'GET', COMMENTS)
    const comments = listIssueComments(state.dataset, issue, queryOf(c))
    return page(c, state, `/issues/${issue.number}/comments`, comments, commentAnswer)
  })

  app.post('/issues/:number/comments', async (c) => {
    const issue = requireIssue(c, state, 'POST', COMMENTS)
    const { body } = parseBody(await c.req.text(), 'POST', COMMENTS)
    if (body === undefined || body === null || body === '') {
      throw validationFailed([{ resource: 'IssueComment', field: 'body', code: 'missing_field' }], 'POST', COMMENTS)
    }
    if (typeof body !== 'string') {
      throw validationFailed([{ resource: 'IssueComment', field: 'body', code: 'invalid' }], 'POST', COMMENTS)
    }
    return created(c, commentAnswer(commentAndTell(byApi(c, state), issue, body), answerContext(c, state)))
  })

  app.get('/issues/:number/timeline', (c) => {
    const issue = requireIssue(c, state, 'GET', TIMELINE)
    const entries = [...(state.dataset.timelines.get(issue.number) ?? [])].sort(
      (a, b) => Date.parse(a.createdAt) - Date.parse(b.createdAt) || a.id - b.id,
    )
    return page(c, state, `/issues/${issue.number}/timeline`, entries, timelineAnswer)
  })

  return app
}

function requireIssue(c: Context, state: SandboxState, method: string, path: string): SandboxIssue {
  requireRepository(c, state, method, path)
  const number = c.req.param('number') ?? ''
  const issue = /^[1-9]\d*$/.test(number) ? state.dataset.issues[Number(number) - 1] : undefined
  if (issue === undefined) throw notFound(method, path)
  return issue
}

function page<T>(
  c: Context,
  state: SandboxState,
  path: string,
  all: readonly T[],
  write: (row: T, context: AnswerContext) => Answer,
): Response {
  const context = answerContext(c, state)
  const address = `${context.apiUrl}/repositories/${state.dataset.repository.id}${path}`
  const { rows, link } = paginate(all, queryOf(c), address)
  if (link !== null) c.header('link', link)
  return c.json(rows.map((row) => write(row, context)))
}

function created(c: Context, answer: Answer): Response {
  c.header('location', String(answer.url))
  return c.json(answer, 201)
}

function byApi(c: Context, state: SandboxState): Editing {
  return { state, apiUrl: new URL(c.req.url).origin, by: 'api' }
}

function answerContext(c: Context, { dataset }: SandboxState): AnswerContext {
  return { dataset, apiUrl: new URL(c.req.url).origin, format: bodyFormat(c.req.header('accept')) }
}

function queryOf(c: Context): URLSearchParams {
  return new URL(c.req.url).searchParams
}
