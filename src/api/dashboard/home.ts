/** The first page: what is wrong now, and how each integration stands. Rule: docs/dashboard.md, "Home". */
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Integrations } from '../../create-integrations.ts'
import type { AccessEnvironment } from '../caller.ts'
import { dashboardPage } from './frame.ts'

export async function homePage(integrations: Integrations, context: Context<AccessEnvironment>): Promise<Response> {
  return dashboardPage(integrations, context, { title: 'Home', section: '', isLive: true, main: html`<p>Home</p>` })
}
