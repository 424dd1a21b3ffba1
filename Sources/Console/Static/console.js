// What the pages do better with a script; without it they work the same.
'use strict';
(() => {
  // Relative times stay right while a page is open.
  const units = [[31557600, 'year'], [2629800, 'month'], [86400, 'day'], [3600, 'hour'], [60, 'minute']];
  const relative = (seconds) => {
    const unit = units.find(([length]) => Math.abs(seconds) >= length);
    if (!unit) return 'now';
    const count = Math.floor(Math.abs(seconds) / unit[0]);
    const words = `${count} ${unit[1]}${count === 1 ? '' : 's'}`;
    return seconds < 0 ? `${words} ago` : `in ${words}`;
  };
  const tell = () => {
    for (const element of document.querySelectorAll('.rel[data-time]')) {
      element.textContent = relative((new Date(element.dataset.time) - Date.now()) / 1000);
    }
  };
  tell();
  setInterval(tell, 30000);

  // A changed filter sends its form: a choice at once, a text after a pause.
  let timer;
  const send = (event) => {
    const form = event.target.form;
    const isChoice = event.target.tagName === 'SELECT';
    if (!form || !form.hasAttribute('data-live') || isChoice !== (event.type === 'change')) return;
    clearTimeout(timer);
    timer = setTimeout(() => form.requestSubmit(), isChoice ? 0 : 500);
  };
  document.addEventListener('input', send);
  document.addEventListener('change', send);

  // "/" goes to the search box.
  document.addEventListener('keydown', (event) => {
    const writes = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    const box = document.getElementById('q');
    if (event.key !== '/' || writes || event.ctrlKey || event.metaKey || event.altKey || !box) return;
    event.preventDefault();
    box.focus();
    box.select();
  });

  // A click on an id selects it; a button copies a text.
  document.addEventListener('click', async (event) => {
    const button = event.target.closest('button[data-copy]');
    if (!button) return;
    const text = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(text.value ?? text.textContent);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(text);
    }
  });
  for (const button of document.querySelectorAll('button[data-copy]')) button.hidden = false;

  // A page that is watched is fetched again, and its part #live replaced.
  const seconds = Number(document.body.dataset.refresh || 0);
  const live = document.getElementById('live');
  if (!seconds || !live) return;
  const pause = document.createElement('button');
  pause.type = 'button';
  pause.className = 'plain pause';
  let isPaused = false;
  const label = () => { pause.textContent = isPaused ? 'Refresh is paused. Go on' : `Refreshes every ${seconds} s. Pause`; };
  label();
  pause.addEventListener('click', () => { isPaused = !isPaused; label(); });
  live.before(pause);
  setInterval(async () => {
    const part = document.getElementById('live');
    // A selection would be lost.
    const isUsed = part.contains(document.activeElement) || part.querySelector('input:checked');
    if (isPaused || document.hidden || isUsed) return;
    try {
      const response = await fetch(location.href, { redirect: 'manual' });
      if (!response.ok) return;
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      const fresh = page.getElementById('live');
      if (fresh) part.replaceWith(fresh);
      tell();
    } catch { /* The next time may succeed. */ }
  }, seconds * 1000);
})();
