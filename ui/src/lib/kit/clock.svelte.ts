/** The time, as a reactive value: ticks only while someone looks and the page is visible. */
import { createSubscriber } from 'svelte/reactivity';

function ticking(every: number): () => number {
  const subscribe = createSubscriber((update) => {
    const timer = setInterval(() => {
      if (!document.hidden) update();
    }, every);
    document.addEventListener('visibilitychange', update);
    return () => {
      clearInterval(timer);
      document.removeEventListener('visibilitychange', update);
    };
  });
  return () => {
    subscribe();
    return Date.now();
  };
}

/** Now, to the second. */
export const seconds = ticking(1_000);
/** Now, to the half minute. */
export const halfMinutes = ticking(30_000);
