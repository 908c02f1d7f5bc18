/** GitHub's issues and Deskline's tickets, as far as the two say the same. */
import type { Integration } from 'durable-integrations'
import { GitHubClient, GitHubComment, GitHubIssue } from 'durable-integrations/github'
import type { DesklineProvider } from '../helpdesk/deskline/provider.ts'
import type { Ticket } from '../helpdesk/deskline/ticket.ts'
import { Ticket as TicketAnswer, TicketComment } from '../helpdesk/deskline/ticket.ts'

/** What is mirrored of an issue and of a ticket. */
export interface Content {
  readonly title: string
  readonly isOpen: boolean
}

export interface Side {
  /** Null: it is not there any more. */
  read(id: string): Promise<Content | null>
  /** Writes what differs. */
  write(id: string, from: Content, to: Content): Promise<void>
  /** @returns its id @param key of the write: it is made once */
  create(content: Content, key: string): Promise<string>
  comment(id: string, body: string, key: string): Promise<string>
}

/** Deskline's greatest. A longer title is mirrored as far as it goes. */
const LONGEST_SUBJECT = 200

export const contentOfIssue = ({ title, state }: Pick<GitHubIssue, 'title' | 'state'>): Content => ({
  title: title.slice(0, LONGEST_SUBJECT),
  isOpen: state === 'open',
})

/** A pending ticket is open, too. */
export const contentOfTicket = ({ subject, status }: Ticket): Content => ({
  title: subject,
  isOpen: status !== 'solved',
})

export function githubSide(integration: Integration): Side {
  const { issues, comments } = new GitHubClient(integration)
  return {
    async read(id) {
      const issue = await issues.get(Number(id))
      return issue === null ? null : contentOfIssue(issue)
    },
    async write(id, from, to) {
      const number = Number(id)
      if (from.title !== to.title) await issues.update({ number, title: to.title })
      if (from.isOpen && !to.isOpen) await issues.close({ number, stateReason: 'completed' })
      if (!from.isOpen && to.isOpen) await issues.reopen({ number })
    },
    async create({ title, isOpen }, key) {
      const create = () => issues.create({ title, idempotencyKey: key })
      const { number } = await once(integration, key, create, (answer) => GitHubIssue.parse(answer))
      if (!isOpen) await issues.close({ number, stateReason: 'completed' })
      return String(number)
    },
    async comment(id, body, key) {
      const add = async () => GitHubComment.parse(await comments.add({ number: Number(id), body, idempotencyKey: key }))
      return String((await once(integration, key, add, (answer) => GitHubComment.parse(answer))).id)
    },
  }
}

/** @param requester whose tickets the mirrored issues are */
export function desklineSide(provider: DesklineProvider, integration: Integration, requester: string): Side {
  const client = provider.for(integration)
  return {
    async read(id) {
      const ticket = await client.ticket(id)
      return ticket === null ? null : contentOfTicket(ticket)
    },
    async write(id, from, to) {
      const subject = from.title === to.title ? {} : { subject: to.title }
      const status = from.isOpen === to.isOpen ? {} : { status: to.isOpen ? 'open' : 'solved' }
      await client.changeTicket(id, { ...subject, ...status })
    },
    async create({ title, isOpen }, idempotencyKey) {
      const create = () => client.createTicket({ subject: title, requesterEmail: requester, idempotencyKey })
      const { id } = await once(integration, idempotencyKey, create, (answer) => TicketAnswer.parse(answer))
      if (!isOpen) await client.changeTicket(id, { status: 'solved' })
      return id
    },
    async comment(id, body, key) {
      const add = () => client.comment(id, body, key)
      return (await once(integration, key, add, (answer) => TicketComment.parse(answer))).id
    },
  }
}

/** A worker may die between a write and the row that says so: the next attempt finds what the write was answered. */
async function once<T>(
  integration: Integration,
  key: string,
  write: () => Promise<T>,
  read: (answer: unknown) => T,
): Promise<T> {
  const prior = await integration.idempotencyRecord(key)
  return prior?.priorState === 'recovered' ? read(prior.priorResponse) : write()
}
