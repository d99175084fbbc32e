"""The example sentences of the README with their references: in no split of the corpus.

The first is the sentence with which attention is usually explained; it is written as people type it,
without a full stop. The others show one thing each: negation, questions, agreement, pronouns, tenses, word
order.
"""

from __future__ import annotations

SHOWCASE: tuple[tuple[str, str], ...] = (
    ("Jane visite l'Afrique en septembre", "Jane visits Africa in September"),
    ("Je ne mange jamais de viande.", "I never eat meat."),
    ("Où habitez-vous\u00a0?", "Where do you live?"),
    ("Ma sœur a acheté une belle voiture rouge.", "My sister bought a beautiful red car."),
    ("Il n'a pas encore fini son travail.", "He has not finished his work yet."),
    ("Donne-moi la clé, s'il te plaît.", "Give me the key, please."),
    ("Nous allons visiter le Japon au printemps.", "We are going to visit Japan in spring."),
    ("Le film que nous avons regardé était très drôle.", "The movie that we watched was very funny."),
    ("Marie est plus grande que son frère.", "Marie is taller than her brother."),
    ("Qu'est-ce que tu as mangé hier soir\u00a0?", "What did you eat last night?"),
    ("S'il avait de l'argent, il achèterait une maison.", "If he had money, he would buy a house."),
    ("Elle habite aux États-Unis depuis trois ans.", "She has lived in the United States for three years."),
    ("Quand j'étais petit, je jouais du piano.", "When I was little, I used to play the piano."),
    ("Paul a trouvé une montre et il l'a donnée à Claire.", "Paul found a watch and he gave it to Claire."),
    ("Il me l'a donné hier.", "He gave it to me yesterday."),
    ("Il y a beaucoup de touristes à la plage.", "There are a lot of tourists at the beach."),
    ("Cette chanson me plaît.", "I like this song."),
    ("L'hôtel où nous avons dormi était bruyant.", "The hotel where we slept was noisy."),
    ("Il pleut souvent à Londres en automne.", "It often rains in London in autumn."),
    ("Mon père se lève à six heures et demie.", "My father gets up at half past six."),
    ("Avant de partir, elle a éteint la lampe.", "Before leaving, she turned off the lamp."),
)
