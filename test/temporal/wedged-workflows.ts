/** A release whose workflows can't go on: their task fails each time. */
async function cannotRun(): Promise<void> {
  throw new TypeError('this release can not run it')
}

export { cannotRun as incident, cannotRun as webhookInbox }
