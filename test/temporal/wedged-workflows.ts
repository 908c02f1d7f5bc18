/** A release whose inbox can't go on: its task fails each time. */
export async function webhookInbox(): Promise<void> {
  throw new TypeError('this release can not run the inbox')
}
