/** The API's root, which leads to `/openapi.json`, and to `/docs` that shows it: a page without a script, so that it works without internet. Rule: docs/behaviour/operator-api.md, "OpenAPI". */
import { Hono } from 'hono'
import { html } from 'hono/html'
import { scopeOf, snakeCase, TOPICS } from '../commands/command.ts'
import { isRequired } from '../commands/fields.ts'
import { PROBLEMS } from '../commands/statuses.ts'
import type { Integrations } from '../create-integrations.ts'
import { packageVersion } from '../framework/package-version.ts'
import type { AccessEnvironment } from './caller.ts'
import type { Operation } from './command-routes.ts'
import { isBodiless, operations, parametersOf } from './command-routes.ts'
import { dashboardPage } from './dashboard/frame/frame.ts'
import { operatorRoot } from './middleware.ts'
import { openApi, operationId, REFUSALS } from './openapi.ts'
import { problemType } from './problem.ts'

export function apiDocs(integrations: Integrations): Hono<AccessEnvironment> {
  const all = operations()
  const routes = new Hono<AccessEnvironment>()
  const server = `${operatorRoot(integrations)}/api/v1`
  const links = { openapi: `${server}/openapi.json`, docs: `${server}/docs` }
  routes.get('/', (context) =>
    context.json(links, 200, {
      Link: `<${links.openapi}>; rel="service-desc", <${links.docs}>; rel="service-doc"`, // RFC 8631
    }),
  )
  routes.get('/openapi.json', (context) => context.json(openApi(all, { server, version: packageVersion() })))
  routes.get('/docs', (context) =>
    dashboardPage(integrations, context, {
      title: 'Operator API',
      section: 'api/v1/docs',
      main: html`<p>Below <code>${server}</code>, with <code>Authorization: Bearer</code> and a token. The same for programs:
<a href="${links.openapi}">openapi.json</a>.</p>
${TOPICS.map((topic) =>
  topicOf(
    topic,
    all.filter(({ command }) => command.topic === topic),
  ),
)}
<h2 id="problems">Problems</h2>
<div class="wide"><table><thead><tr><th>Status</th><th>Type</th><th></th></tr></thead><tbody>
${Object.entries(PROBLEMS)
  .sort(([, a], [, b]) => a - b)
  .map(([code, status]) => html`<tr><td>${status}</td><td>${problemType(code)}</td><td>${REFUSALS[status]}</td></tr>`)}
</tbody></table></div>`,
    }),
  )
  return routes
}

const topicOf = (topic: string, all: readonly Operation[]) =>
  all.length === 0 ? html`` : html`<h2>${topic}</h2>${all.map(operationSection)}`

function operationSection(operation: Operation) {
  const { method, path, summary, fields, status } = operation
  const where = (name: string): string =>
    parametersOf(path).includes(name) ? 'path' : isBodiless(operation) ? 'query' : 'body'
  return html`<details id="${operationId(operation)}">
<summary><strong>${method.toUpperCase()}</strong> <code>${path}</code> ${summary}</summary>
<p>Scope <code>${scopeOf(operation)}</code>; answers ${status}.</p>
${
  Object.keys(fields).length === 0
    ? html``
    : html`<div class="wide"><table><thead><tr><th>Field</th><th>In</th><th>Required</th><th></th></tr></thead><tbody>
${Object.entries(fields).map(
  ([name, field]) =>
    html`<tr><td><code>${snakeCase(name)}</code></td><td>${where(name)}</td><td>${isRequired(field) ? 'yes' : ''}</td><td>${field.about}${field.choices === undefined ? '' : `: ${field.choices.join(', ')}`}</td></tr>`,
)}
</tbody></table></div>`
}
</details>`
}
