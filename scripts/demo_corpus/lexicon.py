"""The bilingual lexicon of the demo corpus: which words exist, what they mean, what goes with what.

The tables are plain text, one entry per line, fields separated by ``;``, read by `load`. An entry pairs one
French sense with one English word, and carries the semantic classes that the verbs and adjectives select.
Two rules keep translation a function of the French sentence:

- a French word with two senses gets two entries only where the surroundings tell them apart (*ma fille* is
  "my daughter", *la fille* is "the girl"; *porter* is "wear" with clothes and "carry" with bags);
- two French words may share one English word (*savoir* and *connaître* are both "know").

Inflection is not in here: `morphology` asks pyrealb for it. English follows American spelling and usage.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Noun:
    """A common noun. ``group`` is the kind of thing that adjectives look at; ``classes`` is what verbs
    look at.
    """

    fr: str
    gender: str
    en: str
    group: str
    classes: frozenset[str]
    mass: bool = False
    plural_only: bool = False
    fr_plural: str = ""
    en_plural: str = ""

    @property
    def key(self) -> str:
        return f"{self.fr}/{self.en}"


@dataclass(frozen=True)
class Adjective:
    """An adjective; ``position`` is ``pre``, ``post`` or ``pred`` (predicative only)."""

    fr: str
    position: str
    en: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Verb:
    """A verb with its frame: who does it, to what, and how the object is attached in French.

    ``prep`` is ``""`` for a direct object, ``à`` or ``de`` for an indirect one. English prepositions and
    particles are part of ``en`` ("look for"). Flags: ``state`` (no progressive, imperfect is the plain
    past), ``refl`` (reflexive in French), ``etre`` (compound tenses with *être*), ``love`` (a bare definite
    object is generic).
    """

    fr: str
    en: str
    flags: frozenset[str]
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    prep: str = ""

    def has(self, flag: str) -> bool:
        return flag in self.flags

    @property
    def key(self) -> str:
        return f"{self.fr}/{self.en}"


@dataclass(frozen=True)
class Place:
    """A kind of place with the phrase for being there and for going there, in both languages."""

    fr: str
    gender: str
    en: str
    fr_at: str
    en_at: str
    en_to: str
    classes: frozenset[str]


@dataclass(frozen=True)
class Region:
    """A country, a continent or a city: bare name, name with article, and the phrase with its preposition."""

    fr: str
    en: str
    fr_direct: str
    fr_in: str
    fr_from: str
    en_direct: str
    city: bool


# fr ; gender ; en ; classes ; options (mass, pl, fr+=plural, en+=plural)
NOUNS: dict[str, str] = {
    "family": """
mère;f;mother;single
père;m;father;single
frère;m;brother
sœur;f;sister
oncle;m;uncle
tante;f;aunt
cousin;m;cousin
cousine;f;cousin
grand-père;m;grandfather;;fr+=grands-pères
grand-mère;f;grandmother;;fr+=grands-mères
fils;m;son
fille;f;daughter
mari;m;husband;single
femme;f;wife;single
neveu;m;nephew
nièce;f;niece
parents;m;parents;;pl
grands-parents;m;grandparents;;pl
enfants;m;children;;pl
ami;m;friend
amie;f;friend
collègue;m;colleague
patron;m;boss;single
""",
    "person": """
homme;m;man
femme;f;woman
garçon;m;boy;child
fille;f;girl;child
enfant;m;child;nogender child
touriste;m;tourist;nation
client;m;customer
cliente;f;customer
voisin;m;neighbor
voisine;f;neighbor
invité;m;guest
voyageur;m;traveler
passager;m;passenger
joueur;m;player
gens;m;people;;pl
dame;f;lady
inconnu;m;stranger
visiteur;m;visitor
prince;m;prince
princesse;f;princess
roi;m;king
reine;f;queen
étudiant;m;student;profession nation
étudiante;f;student;profession nation
élève;m;pupil
médecin;m;doctor;profession
professeur;m;teacher;profession
infirmier;m;nurse;profession
infirmière;f;nurse;profession
avocat;m;lawyer;profession
avocate;f;lawyer;profession
boulanger;m;baker;profession
boulangère;f;baker;profession
cuisinier;m;cook;profession
serveur;m;waiter;profession
serveuse;f;waitress;profession
vendeur;m;salesman;profession
vendeuse;f;saleswoman;profession
journaliste;m;journalist;profession
écrivain;m;writer;profession nation
acteur;m;actor;profession nation
actrice;f;actress;profession nation
chanteur;m;singer;profession nation
chanteuse;f;singer;profession nation
danseuse;f;dancer;profession
musicien;m;musician;profession nation
musicienne;f;musician;profession nation
peintre;m;painter;profession nation
photographe;m;photographer;profession nation
ingénieur;m;engineer;profession nation
architecte;m;architect;profession nation
policier;m;police officer;profession
pompier;m;firefighter;profession
facteur;m;mailman;profession
pilote;m;pilot;profession
mécanicien;m;mechanic;profession
dentiste;m;dentist;profession
pharmacien;m;pharmacist;profession
coiffeur;m;hairdresser;profession
coiffeuse;f;hairdresser;profession
fermier;m;farmer;profession
jardinier;m;gardener;profession
secrétaire;f;secretary;profession
directeur;m;principal;profession
juge;m;judge;profession
soldat;m;soldier;profession
comptable;m;accountant;profession
traductrice;f;translator;profession
plombier;m;plumber;profession
électricien;m;electrician;profession
boucher;m;butcher;profession
chercheur;m;researcher;profession
chauffeur;m;driver;profession
marin;m;sailor;profession
guide;m;guide;profession
""",
    "baby": """
bébé;m;baby;nogender baby
""",
    "animal": """
chien;m;dog;playful pet walkable barker animalcolor
chat;m;cat;playful pet animalcolor
cheval;m;horse;farm animalcolor
vache;f;cow;farm animalcolor
cochon;m;pig;farm
mouton;m;sheep;farm
chèvre;f;goat;farm animalcolor
poule;f;hen;farm
canard;m;duck;farm flier
lapin;m;rabbit;pet animalcolor
oiseau;m;bird;flier wild songbird
souris;f;mouse;wild
singe;m;monkey;wild
éléphant;m;elephant;wild
lion;m;lion;wild fierce
tigre;m;tiger;wild fierce
ours;m;bear;wild fierce
loup;m;wolf;wild fierce
renard;m;fox;wild
tortue;f;turtle;pet
papillon;m;butterfly;flier wild
girafe;f;giraffe;wild
dauphin;m;dolphin;wild swimmer
baleine;f;whale;wild swimmer
serpent;m;snake;wild scary
grenouille;f;frog;wild
âne;m;donkey;farm
hibou;m;owl;wild flier
écureuil;m;squirrel;wild
cerf;m;deer;wild;en+=deer
aigle;m;eagle;wild flier
perroquet;m;parrot;pet
chaton;m;kitten;playful pet animalcolor
chiot;m;puppy;playful pet walkable barker
requin;m;shark;wild scary swimmer
araignée;f;spider;scary wild
""",
    "food": """
pomme;f;apple;food fruit crop
poire;f;pear;food fruit crop
orange;f;orange;food fruit
banane;f;banana;food fruit
fraise;f;strawberry;food fruit crop
cerise;f;cherry;food fruit crop
pêche;f;peach;food fruit crop
citron;m;lemon;food fruit
melon;m;melon;food fruit
ananas;m;pineapple;food fruit
prune;f;plum;food fruit crop
tomate;f;tomato;food veg crop
carotte;f;carrot;food veg crop
oignon;m;onion;veg crop
pomme de terre;f;potato;food veg crop;fr+=pommes de terre
concombre;m;cucumber;veg crop
champignon;m;mushroom;food veg
légume;m;vegetable;food veg crop
gâteau;m;cake;food dish cake
tarte;f;pie;food dish cake
sandwich;m;sandwich;food dish
biscuit;m;cookie;food cake
crêpe;f;pancake;food dish cake
croissant;m;croissant;food
œuf;m;egg;food freshable
pizza;f;pizza;food dish
omelette;f;omelet;food dish
saucisse;f;sausage;food
pain;m;bread;bread food cuttable freshable;mass
fromage;m;cheese;food cuttable nation;mass
beurre;m;butter;food;mass
riz;m;rice;food;mass
viande;f;meat;food cuttable;mass
poulet;m;chicken;food;mass
jambon;m;ham;food cuttable;mass
soupe;f;soup;food dish liquidfood;mass
salade;f;salad;food dish;mass
confiture;f;jam;food;mass
miel;m;honey;food;mass
chocolat;m;chocolate;food;mass
sucre;m;sugar;spice;mass
sel;m;salt;spice;mass
poivre;m;pepper;spice;mass
farine;f;flour;spice;mass
huile;f;oil;spice;mass
glace;f;ice cream;food;mass
poisson;m;fish;food freshable;mass
saumon;m;salmon;food freshable;mass
""",
    "drink": """
eau;f;water;drink;mass
lait;m;milk;drink freshable;mass
café;m;coffee;drink hotdrink;mass
thé;m;tea;drink hotdrink;mass
jus d'orange;m;orange juice;drink;mass
jus de pomme;m;apple juice;drink;mass
vin;m;wine;drink nation;mass
bière;f;beer;drink;mass
limonade;f;lemonade;drink;mass
""",
    "meal": """
dîner;m;dinner;meal
déjeuner;m;lunch;meal
petit-déjeuner;m;breakfast;meal;fr+=petits-déjeuners
repas;m;meal;meal complaint
dessert;m;dessert;meal dessert
""",
    "clothing": """
chemise;f;shirt;wear
robe;f;dress;wear
jupe;f;skirt;wear
manteau;m;coat;warm wear
chapeau;m;hat;wear
veste;f;jacket;wear
pull;m;sweater;warm wear
écharpe;f;scarf;warm wear
cravate;f;tie;wear
ceinture;f;belt;wear
casquette;f;cap;wear
costume;m;suit;wear
uniforme;m;uniform;wear
imperméable;m;raincoat;wear
chaussures;f;shoes;wear;pl
chaussettes;f;socks;wear;pl
gants;m;gloves;warm wear;pl
bottes;f;boots;warm wear;pl
lunettes;f;glasses;wear losable;pl
""",
    "object": """
clé;f;key;losable small give lend
sac;m;bag;losable carry small give lend colored pretty container
téléphone;m;phone;device losable small lend
ordinateur;m;computer;device lend
montre;f;watch;losable repairable small gift give pretty collected
parapluie;m;umbrella;losable lend small give colored
stylo;m;pen;losable lend small tool give colored
crayon;m;pencil;losable lend small tool give colored
cahier;m;notebook;losable lend small give colored
valise;f;suitcase;openable carry losable lend colored container
portefeuille;m;wallet;losable small
passeport;m;passport;losable small
billet;m;ticket;losable small paid give
photo;f;photo;picture small give pretty
appareil photo;m;camera;device lend small;fr+=appareils photo
lampe;f;lamp;lamp fragile furniture colored pretty
couteau;m;knife;tool cutlery lend
fourchette;f;fork;cutlery
cuillère;f;spoon;cutlery
assiette;f;plate;fragile cutlery washable colored
verre;m;glass;fragile cutlery washable container
tasse;f;cup;fragile cutlery washable colored pretty container
bouteille;f;bottle;fragile openable container
miroir;m;mirror;fragile furniture pretty
vase;m;vase;fragile furniture gift colored pretty container
jouet;m;toy;small gift give lend
ballon;m;ball;throwable small gift lend colored
poupée;f;doll;gift small give pretty collected
cadeau;m;gift;openable giftonly give small
bouquet;m;bouquet;gift give pretty
tableau;m;painting;picture furniture pretty collected
horloge;f;clock;repairable furniture pretty
outil;m;tool;tool lend
marteau;m;hammer;tool lend
échelle;f;ladder;tool lend carry
serviette;f;towel;washable lend colored
couverture;f;blanket;washable lend colored
bougie;f;candle;small
timbre;m;stamp;stamp small collected
dictionnaire;m;dictionary;tool lend give small
bague;f;ring;losable gift small give pretty
collier;m;necklace;losable gift small give pretty
panier;m;basket;carry small container
boîte;f;box;openable carry small colored pretty container
argent;m;money;money give lend;mass
table;f;table;furniture colored pretty
chaise;f;chair;furniture colored furnituresoft
lit;m;bed;furniture furnituresoft
armoire;f;wardrobe;furniture colored
canapé;m;sofa;furniture colored furnituresoft
fauteuil;m;armchair;furniture colored furnituresoft
étagère;f;shelf;furniture
tapis;m;rug;furniture colored pretty
télévision;f;television;device lamp
radio;f;radio;device lamp
machine;f;machine;device
réfrigérateur;m;refrigerator;device furniture container
four;m;oven;device lamp
imprimante;f;printer;device
porte;f;door;doorlike openable paintable colored
fenêtre;f;window;doorlike openable fragile
tiroir;m;drawer;openable container
pierre;f;stone;throwable
""",
    "vehicle": """
voiture;f;car;vehicle driven washable repairable lend buyable nation
vélo;m;bike;vehicle repairable washable lend buyable gift
moto;f;motorcycle;vehicle repairable washable buyable
camion;m;truck;vehicle driven washable repairable buyable
bus;m;bus;transport driven
train;m;train;lovedthing transport
avion;m;plane;plane transport flier
bateau;m;boat;lovedthing transport repairable paintable
taxi;m;taxi;transport driven
métro;m;subway;complaintlove transport
tramway;m;tram;transport driven
""",
    "text": """
livre;m;book;read write lend give gift losable small
roman;m;novel;read write lend gift nation
journal;m;newspaper;read buyable lend nation
magazine;m;magazine;read buyable lend
lettre;f;letter;read write send letterlike
message;m;message;read write send
poème;m;poem;read write learn letterlike
article;m;article;read write
histoire;f;story;read write tell
carte postale;f;postcard;write send give;fr+=cartes postales
phrase;f;sentence;write translate
texte;m;text;write translate
chanson;f;song;listen write learn sing nation
""",
    "show": """
film;m;movie;watch projectlike nation
match;m;game;watch win
émission;f;program;watch
spectacle;m;show;watch
musique;f;music;listen;mass
concert;m;concert;listen
disque;m;record;listen buyable collected
""",
    "abstract": """
idée;f;idea;choice understand share idea projectlike
problème;m;problem;understand solve explain idea projectlike
question;f;question;choice understand ask idea
réponse;f;answer;choice understand know idea
secret;m;secret;keep tell
projet;m;project;project choice explain finish start share idea projectlike
rêve;m;dream; projectlike
erreur;f;mistake;explain forgive
règle;f;rule;project understand explain idea
exercice;m;exercise;understand finish start explain idea
leçon;f;lesson;understand finish start idea
mot;m;word;understand translate
nom;m;name;forget
adresse;f;address;forget give
numéro;m;number;forget give
travail;m;work;finish start complaint;mass
vérité;f;truth;tell know truth;mass
réunion;f;meeting;complaintlove prepare event meeting
voyage;m;trip;lovedthing prepare event projectlike travelthing
fête;f;party;lovedthing prepare event
mariage;m;wedding;event prepare travelthing
avenir;m;future;travelthing;mass
bruit;m;noise;complaintlove complaint;mass
examen;m;exam;pass prepare idea
prix;m;price;know complaint
histoire;f;history;subject;mass
""",
    "nature": """
mer;f;sea;lovedthing scenery
lac;m;lake;scenery
rivière;f;river;scenery cross
montagne;f;mountain;scenery climb explored
forêt;f;forest;forest scenery cross explored
île;f;island;scenery explored
ciel;m;sky;scenery;mass
soleil;m;sun;shiner;mass
lune;f;moon;scenery shiner;mass
étoile;f;star;scenery
nuage;m;cloud;scenery
neige;f;snow;lovedthing ;mass
pluie;f;rain;complaintlove complaint;mass
arbre;m;tree;scenery planted climb
fleur;f;flower;scenery planted picked watered gift give flowercolor
rose;f;rose;planted picked watered gift give flowercolor
plante;f;plant;planted watered
feuille;f;leaf;picked
herbe;f;grass;;mass
colline;f;hill;scenery climb explored
vallée;f;valley;scenery cross explored
désert;m;desert;scenery cross explored
paysage;m;landscape;scenery
""",
    "building": """
maison;f;house;built bought paintable leave liveplace dwelling archi
appartement;m;apartment;bought room leave liveplace dwelling archi
château;m;castle;built visited explored castle
pont;m;bridge;built cross paintable archi
tour;f;tower;built visited climb castle archi
mur;m;wall;built paintable wall
hôtel;m;hotel;built leave liveplace dwelling archi
école;f;school;built archi
église;f;church;built visited castle
musée;m;museum;visited built archi
chambre;f;bedroom;room paintable leave dwelling
cuisine;f;kitchen;room paintable
salon;m;living room;room dwelling
jardin;m;garden;visited watered garden
garage;m;garage;room
rue;f;street;cross liveplace
ville;f;city;visited leave liveplace archi
village;m;village;visited leave liveplace
pays;m;country;visited leave
quartier;m;neighborhood;visited leave liveplace archi
magasin;m;store;leave
""",
}

# fr ; position ; en ; groups
ADJECTIVES = """
grand;pre;big;animal wear object vehicle building scenery
grand;pre;tall;person
petit;pre;small;animal cake wear object vehicle building scenery
petit;pre;little;person
bon;pre;good;food drink meal text show choice profession
mauvais;pre;bad;text show choice meal
beau;pre;beautiful;animal clothing scenery archi text show pretty vehicle picked
joli;pre;pretty;clothing pretty scenery dwelling picked
nouveau;pre;new;clothing object vehicle text show project building profession
vieux;pre;old;person pet farm clothing object vehicle read building
jeune;pre;young;person animal
gros;pre;fat;animal
gentil;pre;kind;person
long;pre;long;text show
rouge;post;red;clothing colored vehicle flowercolor
bleu;post;blue;clothing colored vehicle
vert;post;green;clothing colored vehicle
jaune;post;yellow;clothing colored vehicle flowercolor
noir;post;black;clothing colored vehicle animalcolor
blanc;post;white;clothing colored vehicle animalcolor flowercolor wall
gris;post;gray;clothing colored vehicle animalcolor wall
marron;post;brown;clothing colored
rose;post;pink;clothing colored flowercolor
violet;post;purple;clothing colored
orange;post;orange;clothing colored
cher;post;expensive;clothing gift vehicle meal bought device
moderne;post;modern;archi furniture device
ancien;post;ancient;castle
lourd;post;heavy;carry
léger;post;light;carry wear meal
propre;post;clean;clothing vehicle room cutlery
sale;post;dirty;clothing vehicle room cutlery
cassé;post;broken;fragile repairable
vide;post;empty;container room
rond;post;round;furniture
pratique;post;practical;device tool vehicle
utile;post;useful;device tool text idea
confortable;post;comfortable;furnituresoft driven wear dwelling
élégant;post;elegant;person clothing
chaud;post;warm;clothing
froid;post;cold;drink meal
frais;post;fresh;fruit veg freshable
délicieux;post;delicious;food meal
mûr;post;ripe;fruit
sucré;post;sweet;drink cake
intéressant;post;interesting;text show idea
ennuyeux;post;boring;text show
facile;post;easy;idea
difficile;post;difficult;idea
important;post;important;idea meeting
drôle;post;funny;person text show
triste;post;sad;person text show
célèbre;post;famous;profession read listen visited
étrange;post;strange;text show idea
dangereux;post;dangerous;fierce scary cross
passionnant;post;exciting;text show
court;pre;short;text show
simple;post;simple;idea meal
intelligent;post;intelligent;person animal
méchant;post;mean;person
sympathique;post;friendly;person
timide;post;shy;person
courageux;post;brave;person
paresseux;post;lazy;person animal
poli;post;polite;person
patient;post;patient;person
riche;post;rich;person
pauvre;post;poor;person
heureux;post;happy;person
fort;post;strong;person animal
sérieux;post;serious;person idea
curieux;post;curious;person animal
généreux;post;generous;person
honnête;post;honest;person
bavard;post;talkative;person
prudent;post;careful;person
jaloux;post;jealous;person
mince;post;thin;person
blond;post;blond;person
fier;post;proud;person
calme;post;quiet;liveplace
bruyant;post;noisy;liveplace device
magnifique;post;magnificent;scenery archi visited
immense;post;huge;explored archi
sombre;post;dark;forest room
tranquille;post;peaceful;liveplace
historique;post;historic;visited
sauvage;post;wild;wild
rapide;post;fast;vehicle transport
lent;post;slow;vehicle transport
fatigué;pred;tired;person animal
malade;pred;sick;person animal
content;pred;glad;person
prêt;pred;ready;person meal
occupé;pred;busy;person
absent;pred;absent;person
libre;pred;free;person
seul;pred;alone;person animal
marié;pred;married;person
célibataire;pred;single;person
inquiet;pred;worried;person
déçu;pred;disappointed;person
surpris;pred;surprised;person
ouvert;pred;open;shop openable
fermé;pred;closed;shop openable
français;post;French;nation
italien;post;Italian;nation
espagnol;post;Spanish;nation
allemand;post;German;nation
anglais;post;English;nation
américain;post;American;nation
japonais;post;Japanese;nation
chinois;post;Chinese;nation
canadien;post;Canadian;nation
brésilien;post;Brazilian;nation
belge;post;Belgian;nation
marocain;post;Moroccan;nation
grec;post;Greek;nation
portugais;post;Portuguese;nation
mexicain;post;Mexican;nation
indien;post;Indian;nation
suédois;post;Swedish;nation
irlandais;post;Irish;nation
africain;post;African;nation
européen;post;European;nation
"""

# fr ; en ; flags ; subjects ; objects ; prep
VERBS_TRANSITIVE = """
manger;eat;;person;food
boire;drink;;person;drink
préparer;prepare;;person;dish meal prepare
goûter;taste;;person;dish
couper;cut;;person;cuttable cake
acheter;buy;;person;wear food spice drink small furniture buyable bought read
vendre;sell;;person;wear food furniture buyable bought vehicle
commander;order;;person;dish drink dessert
lire;read;;person;read
écrire;write;;person;write
traduire;translate;;person;translate
recevoir;receive;;person;send giftonly
regarder;watch;;person;watch
regarder;look at;;person;scenery picture
écouter;listen to;;person;listen
voir;see;;person;wild farm scenery vehicle watch
chercher;look for;;person;losable pet bought
trouver;find;;person;losable pet
perdre;lose;;person;losable
gagner;win;;person;win
oublier;forget;;person;forget losable
garder;keep;;person;keep
porter;wear;;person;wear
porter;carry;;person;carry
mettre;put on;;person;wear
laver;wash;;person;washable wear
nettoyer;clean;;person;room
ranger;tidy;;person;room
réparer;repair;;person;repairable device
casser;break;;person;fragile
ouvrir;open;;person;openable
fermer;close;;person;openable
allumer;turn on;;person;lamp
éteindre;turn off;;person;lamp
utiliser;use;;person;tool device
conduire;drive;;person;driven
prendre;take;;person;transport
rater;miss;;person;transport
attendre;wait for;;person;transport friendly
visiter;visit;;person;visited
construire;build;;person;built
dessiner;draw;;person;wild pet farm scenery
peindre;paint;;person;paintable
apprendre;learn;;person;learn subject
étudier;study;;person;subject
enseigner;teach;;person;subject
comprendre;understand;state;person;understand
choisir;choose;;person;wear gift read dish
cacher;hide;;person;gift losable money
emprunter;borrow;;person;lend
voler;steal;;person;losable money vehicle
lancer;throw;;person;throwable
attraper;catch;;person;throwable
finir;finish;;person;finish
commencer;start;;person;start
quitter;leave;;person;leave
traverser;cross;;person;cross
planter;plant;;person;planted
cueillir;pick;;person;picked crop
arroser;water;;person;watered
nourrir;feed;;person;pet farm
promener;walk;;person;walkable
cultiver;grow;;person;crop
chanter;sing;;person;sing
passer;take;;person;pass
résoudre;solve;;person;solve
rencontrer;meet;;person;person
inviter;invite;;person;friendly
aider;help;;person;friendly
appeler;call;;person;friendly
remercier;thank;;person;friendly
embrasser;kiss;;person;kin baby
saluer;greet;;person;friendly
accompagner;accompany;;person;friendly
admirer;admire;state;person;friendly scenery picture
respecter;respect;state;person;friendly
suivre;follow;;person;person
protéger;protect;;person;kin baby
sauver;save;;person;person baby
réveiller;wake up;;person;kin baby
féliciter;congratulate;;person;friendly
écouter;listen to;;person;kin profession
chercher;look for;;person;kin
connaître;know;state;person;friendly visited
croire;believe;state;person;friendly
payer;pay for;;person;meal paid
servir;serve;;person;dish drink meal
remplir;fill;;person;container
vider;empty;;person;container
toucher;touch;;person;pet picture
partager;share;;person;cake share
explorer;explore;;person;explored
photographier;photograph;;person;scenery wild
collectionner;collect;state;person;collected
"""

VERBS_LIKE = """
aimer;like;love state;person;food drink read listen watch subject lovedthing
aimer;love;state;person;kin
adorer;love;love state;person;food drink watch listen scenery subject pet
détester;hate;love state;person;food drink scary watch complaintlove subject
préférer;prefer;love state;person;food drink read listen watch
vouloir;want;state;person;food drink wear gift vehicle
avoir;have;state;person;pet losable vehicle wear money furniture device
"""

VERBS_INDIRECT = """
téléphoner;call;;person;friendly;à
parler;talk to;;person;friendly;à
répondre;answer;;person;friendly;à
sourire;smile at;;person;person;à
ressembler;look like;state;person;kin;à
obéir;obey;;person;kin;à
rendre visite;visit;;person;kin;à
écrire;write to;;person;kin;à
penser;think about;;person;kin event travelthing;à
parler;talk about;;person;event projectlike watch travelthing;de
avoir besoin;need;state;person;tool money losable;de
avoir peur;be afraid of;state;person;scary fierce;de
rêver;dream about;;person;travelthing scenery vehicle;de
s'occuper;take care of;refl;person;kin pet garden;de
se souvenir;remember;refl state;person;friendly forget travelthing;de
se servir;use;refl;person;tool device;de
s'intéresser;be interested in;refl state;person;subject;à
se plaindre;complain about;refl;person;complaint;de
"""

VERBS_INTRANSITIVE = """
dormir;sleep;;person person person pet baby;long placesleep manner
travailler;work;;person;long place manner
marcher;walk;;person;long placeout manner
courir;run;;person;long placeout manner
nager;swim;;person;long water manner
danser;dance;;person;long manner
chanter;sing;;person songbird;long manner
rire;laugh;;person;manner
pleurer;cry;;person person person baby;long
voyager;travel;;person;countryonly long
tomber;fall;etre;person;
partir;leave;etre;person;manner
arriver;arrive;etre;person transport;placein
rester;stay;etre state;person;place long
rentrer;come home;etre;person;late
sortir;go out;etre;person;
venir;come;etre;person;
vivre;live;state;person;country placelive
habiter;live;state;person;country placelive
jouer;play;;child playful;placeplay long
crier;shout;;person;
réfléchir;think;;person;long
fumer;smoke;state;person;
cuisiner;cook;;person;manner
mentir;lie;;person;
déménager;move;;person;
skier;ski;;person;manner
briller;shine;;shiner;
aboyer;bark;;barker;long
voler;fly;;flier;
fonctionner;work;state;device;manner
pousser;grow;;planted;manner
déjeuner;have lunch;;person;placeeat
dîner;have dinner;;person;placeeat
étudier;study;;person;long place
conduire;drive;;person;manner
se lever;get up;refl;person;late
se réveiller;wake up;refl;person;late
se coucher;go to bed;refl;person;late
se laver;wash oneself;refl;person;
s'habiller;get dressed;refl;person;manner
se dépêcher;hurry;refl;person;
se reposer;rest;refl;person;long placesleep
se promener;take a walk;refl;person;placeout
se baigner;go for a swim;refl;person;water
s'amuser;have fun;refl;person;placefun
s'ennuyer;get bored;refl;person;placefun
se tromper;make a mistake;refl;person;
se marier;get married;refl;person;country
se perdre;get lost;refl;person;placeout
s'asseoir;sit down;refl;person;
se raser;shave;refl;man;
s'endormir;fall asleep;refl;person;late
se fâcher;get angry;refl;person;
se taire;be quiet;refl;person;
se cacher;hide;refl;person;placeout
se brosser les dents;brush one's teeth;refl noagree;person;
se laver les mains;wash one's hands;refl noagree;person;
"""

VERBS_GIVE = """
donner;give;;person;give money
prêter;lend;;person;lend money
offrir;offer;;person;gift
montrer;show;;person;picture write
envoyer;send;;person;send picture giftonly
apporter;bring;;person;small gift drink
raconter;tell;;person;tell
dire;tell;;person;truth
expliquer;explain;toonly;person;explain
vendre;sell;;person;vehicle furniture bought
rendre;return;toonly;person;lend money
lire;read;;person;letterlike
écrire;write;;person;send
"""

# Languages, sports and instruments: bare name in English.
LANGUAGES = """
français;French
anglais;English
espagnol;Spanish
allemand;German
italien;Italian
chinois;Chinese
japonais;Japanese
arabe;Arabic
portugais;Portuguese
russe;Russian
"""
SUBJECTS = """
les mathématiques;math
l'histoire;history
la géographie;geography
la physique;physics
la chimie;chemistry
la biologie;biology
le droit;law
la médecine;medicine
l'informatique;computer science
la philosophie;philosophy
l'économie;economics
"""
GAMES = """
au football;soccer
au tennis;tennis
au basket-ball;basketball
au volley-ball;volleyball
au golf;golf
au rugby;rugby
aux échecs;chess
aux cartes;cards
du piano;the piano
du violon;the violin
de la guitare;the guitar
de la flûte;the flute
de la trompette;the trumpet
du violoncelle;the cello
de la batterie;the drums
"""

# fr ; gender ; en ; French phrase ; English "at" ; English "to" ; classes (in, out, live, eat, water, go)
PLACES = """
école;f;school;à l'école;at school;to school;in work study
hôpital;m;hospital;à l'hôpital;at the hospital;to the hospital;in work
bibliothèque;f;library;à la bibliothèque;at the library;to the library;in work study shop read
musée;m;museum;au musée;at the museum;to the museum;in shop
gare;f;train station;à la gare;at the train station;to the train station;in arrive
marché;m;market;au marché;at the market;to the market;in work buy
restaurant;m;restaurant;au restaurant;at the restaurant;to the restaurant;in work eat shop
cinéma;m;movie theater;au cinéma;at the movie theater;to the movie theater;in shop
théâtre;m;theater;au théâtre;at the theater;to the theater;in work shop fun
banque;f;bank;à la banque;at the bank;to the bank;in work shop
poste;f;post office;à la poste;at the post office;to the post office;in work shop
pharmacie;f;pharmacy;à la pharmacie;at the pharmacy;to the pharmacy;in work shop
boulangerie;f;bakery;à la boulangerie;at the bakery;to the bakery;in work shop buy
église;f;church;à l'église;at church;to church;in
parc;m;park;au parc;at the park;to the park;out eat fun read play
plage;f;beach;à la plage;at the beach;to the beach;out eat arrive fun sleep read play
piscine;f;swimming pool;à la piscine;at the swimming pool;to the swimming pool;in water shop
stade;m;stadium;au stade;at the stadium;to the stadium;out arrive fun
bureau;m;office;au bureau;at the office;to the office;in work arrive
hôtel;m;hotel;à l'hôtel;at the hotel;to the hotel;in work eat arrive sleep
supermarché;m;supermarket;au supermarché;at the supermarket;to the supermarket;in work shop buy
université;f;university;à l'université;at the university;to the university;in work study
aéroport;m;airport;à l'aéroport;at the airport;to the airport;in arrive work
ferme;f;farm;à la ferme;on the farm;to the farm;out work
usine;f;factory;à l'usine;at the factory;to the factory;in work
mairie;f;town hall;à la mairie;at the town hall;to the town hall;in work shop
château;m;castle;au château;at the castle;to the castle;arrive
zoo;m;zoo;au zoo;at the zoo;to the zoo;out work shop fun
librairie;f;bookstore;à la librairie;at the bookstore;to the bookstore;in work shop buy
montagne;f;mountain;à la montagne;in the mountains;to the mountains;out live fun sleep
mer;f;sea;à la mer;by the sea;to the seaside;out live fun sleep
campagne;f;countryside;à la campagne;in the countryside;to the countryside;out live fun sleep
maison;f;home;à la maison;at home;home;in eat work study sleep read play
forêt;f;forest;dans la forêt;in the forest;into the forest;out
jardin;m;garden;dans le jardin;in the garden;into the garden;out eat sleep read play
rue;f;street;dans la rue;in the street;into the street;out
lac;m;lake;dans le lac;in the lake;into the lake;water
rivière;f;river;dans la rivière;in the river;into the river;water
mer;f;sea;dans la mer;in the sea;into the sea;water
"""

# fr name ; en name ; article kind: la / l'f / le / l'm / les
COUNTRIES = """
France;France;la
Italie;Italy;l'
Espagne;Spain;l'
Allemagne;Germany;l'
Angleterre;England;l'
Irlande;Ireland;l'
Écosse;Scotland;l'
Belgique;Belgium;la
Suisse;Switzerland;la
Grèce;Greece;la
Pologne;Poland;la
Suède;Sweden;la
Norvège;Norway;la
Turquie;Turkey;la
Égypte;Egypt;l'
Tunisie;Tunisia;la
Chine;China;la
Inde;India;l'
Australie;Australia;l'
Argentine;Argentina;l'
Afrique;Africa;l'
Europe;Europe;l'
Asie;Asia;l'
Amérique du Sud;South America;l'
Japon;Japan;le
Canada;Canada;le
Brésil;Brazil;le
Mexique;Mexico;le
Maroc;Morocco;le
Portugal;Portugal;le
Sénégal;Senegal;le
Pérou;Peru;le
Chili;Chile;le
Kenya;Kenya;le
Vietnam;Vietnam;le
Danemark;Denmark;le
États-Unis;the United States;les
Pays-Bas;the Netherlands;les
Philippines;the Philippines;les
"""
CITIES = """
Paris;Paris
Londres;London
Rome;Rome
Madrid;Madrid
Berlin;Berlin
Lisbonne;Lisbon
Bruxelles;Brussels
Genève;Geneva
Vienne;Vienna
Athènes;Athens
Tokyo;Tokyo
Pékin;Beijing
Montréal;Montreal
Lyon;Lyon
Marseille;Marseille
Bordeaux;Bordeaux
Nice;Nice
Dakar;Dakar
Varsovie;Warsaw
Édimbourg;Edinburgh
Barcelone;Barcelona
Venise;Venice
New York;New York
Boston;Boston
Dublin;Dublin
Le Caire;Cairo
"""
CAPITALS = {
    "France": "Paris",
    "Italie": "Rome",
    "Espagne": "Madrid",
    "Allemagne": "Berlin",
    "Angleterre": "Londres",
    "Portugal": "Lisbonne",
    "Belgique": "Bruxelles",
    "Autriche": "Vienne",
    "Grèce": "Athènes",
    "Japon": "Tokyo",
    "Chine": "Pékin",
    "Sénégal": "Dakar",
    "Pologne": "Varsovie",
    "Écosse": "Édimbourg",
    "Irlande": "Dublin",
    "Égypte": "Le Caire",
}

NAMES_MALE = (
    "Paul Pierre Luc Thomas Hugo Louis Nicolas Antoine Julien Marc Lucas Gabriel Arthur Simon Martin "
    "Olivier Daniel David Adam Victor"
)
NAMES_FEMALE = (
    "Jane Marie Sophie Julie Emma Léa Alice Claire Nathalie Sarah Anna Louise Chloé Manon Laura Eva "
    "Hélène Nina Zoé Inès"
)
SURNAMES = "Martin Dubois Bernard Laurent Moreau Lambert Fontaine Girard"

DAYS = """
lundi;Monday
mardi;Tuesday
mercredi;Wednesday
jeudi;Thursday
vendredi;Friday
samedi;Saturday
dimanche;Sunday
"""
MONTHS = """
janvier;January
février;February
mars;March
avril;April
mai;May
juin;June
juillet;July
août;August
septembre;September
octobre;October
novembre;November
décembre;December
"""
SEASONS = """
au printemps;in spring
en été;in summer
en automne;in autumn
en hiver;in winter
"""
NUMBERS = """
deux;two;2
trois;three;3
quatre;four;4
cinq;five;5
six;six;6
sept;seven;7
huit;eight;8
neuf;nine;9
dix;ten;10
onze;eleven;11
douze;twelve;12
treize;thirteen;13
quatorze;fourteen;14
quinze;fifteen;15
seize;sixteen;16
dix-sept;seventeen;17
dix-huit;eighteen;18
dix-neuf;nineteen;19
vingt;twenty;20
vingt-cinq;twenty-five;25
trente;thirty;30
trente-cinq;thirty-five;35
quarante;forty;40
quarante-cinq;forty-five;45
cinquante;fifty;50
soixante;sixty;60
soixante-dix;seventy;70
quatre-vingts;eighty;80
quatre-vingt-dix;ninety;90
cent;one hundred;100
"""

# Time expressions; kinds: past future habit
TIMES_PAST = """
hier;yesterday
hier soir;last night
hier matin;yesterday morning
hier après-midi;yesterday afternoon
avant-hier;the day before yesterday
la semaine dernière;last week
le mois dernier;last month
l'année dernière;last year
l'été dernier;last summer
l'hiver dernier;last winter
l'autre jour;the other day
ce matin;this morning
il y a longtemps;a long time ago
il y a quelques jours;a few days ago
"""
TIMES_FUTURE = """
demain;tomorrow
demain matin;tomorrow morning
demain soir;tomorrow evening
demain après-midi;tomorrow afternoon
après-demain;the day after tomorrow
la semaine prochaine;next week
le mois prochain;next month
l'année prochaine;next year
l'été prochain;next summer
l'hiver prochain;next winter
bientôt;soon
ce soir;this evening
un jour;one day
plus tard;later
"""
TIMES_HABIT = """
tous les jours;every day
tous les matins;every morning
tous les soirs;every evening
chaque semaine;every week
chaque année;every year
chaque été;every summer
le matin;in the morning
le soir;in the evening
l'après-midi;in the afternoon
le week-end;on weekends
une fois par semaine;once a week
deux fois par mois;twice a month
trois fois par an;three times a year
d'habitude;usually
de temps en temps;from time to time
"""
ADVERBS_MID = """
souvent;often
toujours;always
parfois;sometimes
rarement;rarely
"""
# Manner adverbs: fr ; en ; "aux" when they stand between auxiliary and participle
ADVERBS_MANNER = """
bien;well;aux
mal;badly;aux
beaucoup;a lot;aux
trop;too much;aux
vite;quickly;aux
lentement;slowly;
doucement;gently;
tranquillement;quietly;
facilement;easily;
"""

# Verbs that take an infinitive: fr ; link ; en ; link (to, ing, base) ; flags
HEADS = """
pouvoir;;can;base;state modal
devoir;;must;base;state modal
vouloir;;want to;base;state modal
savoir;;know how to;base;state
aimer;;like to;base;state
adorer;;love to;base;state
détester;;hate;ing;state
préférer;;prefer to;base;state
espérer;;hope to;base;state
avoir envie;de;feel like;ing;state
avoir besoin;de;need to;base;state
avoir l'intention;de;intend to;base;state
avoir le temps;de;have time to;base;state
avoir hâte;de;be eager to;base;state
commencer;à;start to;base;
continuer;à;continue to;base;
apprendre;à;learn to;base;
réussir;à;manage to;base;
essayer;de;try to;base;
oublier;de;forget to;base;
décider;de;decide to;base;
refuser;de;refuse to;base;
accepter;de;agree to;base;
promettre;de;promise to;base;
finir;de;finish;ing;
arrêter;de;stop;ing;
"""
# avoir + noun
FEELINGS = """
faim;hungry
soif;thirsty
froid;cold
chaud;hot
sommeil;sleepy
peur;afraid
raison;right
tort;wrong
"""
ACHES = """
à la tête;a headache
au dos;a backache
au ventre;a stomachache
aux dents;a toothache
à la gorge;a sore throat
à l'oreille;an earache
"""
# être + phrase
STATES = """
en colère;angry
en retard;late
en avance;early
en vacances;on vacation
de bonne humeur;in a good mood
de mauvaise humeur;in a bad mood
en bonne santé;in good health
au courant;aware of it
"""
MATERIALS = """
en bois;wooden;table chaise lit armoire étagère boîte jouet porte échelle
en laine;wool;pull écharpe manteau jupe chaussettes gants couverture
en cuir;leather;sac veste ceinture canapé fauteuil bottes chaussures portefeuille
en or;gold;bague collier montre
en argent;silver;bague collier cuillère fourchette
en verre;glass;vase bouteille table porte
en coton;cotton;chemise robe jupe serviette
en soie;silk;robe chemise cravate
"""
CONTAINERS = """
tasse;f;cup;tasses;cups;thé café
verre;m;glass;verres;glasses;eau lait vin bière limonade jus d'orange jus de pomme
bouteille;f;bottle;bouteilles;bottles;eau vin lait bière limonade
bol;m;bowl;bols;bowls;soupe riz lait
morceau;m;piece;morceaux;pieces;pain fromage viande chocolat
tranche;f;slice;tranches;slices;pain jambon fromage
kilo;m;kilo;kilos;kilos;sucre farine riz viande
pot;m;jar;pots;jars;confiture miel
boîte;f;box;boîtes;boxes;chocolat
"""
# Impersonal: il est ... de
EVALUATIONS = """
important;important
difficile;difficult
facile;easy
dangereux;dangerous
possible;possible
impossible;impossible
interdit;forbidden
utile;useful
agréable;pleasant
temps;time
"""
OPINIONS = """
penser;think
croire;believe
savoir;know
dire;say
espérer;hope
être sûr;be sure
"""
WEATHER_FAIRE = """
froid;it;cold
chaud;it;hot
beau;the weather;nice
mauvais;the weather;bad
nuit;it;dark
frais;it;cool
"""
GREETINGS = """
Merci pour;Thank you for
Merci beaucoup pour;Thank you very much for
Bravo pour;Congratulations on
"""
ROOMS = """
dans ma chambre;in my bedroom
dans sa chambre;in one's bedroom
dans la cuisine;in the kitchen
dans le salon;in the living room
dans le garage;in the garage
sur la table;on the table
sur le lit;on the bed
sur la chaise;on the chair
sous la table;under the table
sous le lit;under the bed
dans le tiroir;in the drawer
dans le sac;in the bag
dans la voiture;in the car
derrière la porte;behind the door
près de la fenêtre;near the window
à côté du lit;next to the bed
à côté de la lampe;next to the lamp
"""
SPOTS = """
devant la gare;in front of the train station
derrière l'église;behind the church
près de la mer;near the sea
près de la gare;near the train station
près d'ici;near here
à côté de la banque;next to the bank
à côté de l'école;next to the school
en face de la poste;across from the post office
en face du musée;across from the museum
au bord du lac;by the lake
dans ce quartier;in this neighborhood
dans ma rue;on my street
au coin de la rue;at the corner of the street
loin du centre;far from the center
au centre de la ville;in the center of the city
"""

# What kind of event a verb is: when it may happen and with what else it is natural.
ACCIDENTS = """sauver perdre casser oublier rater voler tomber mentir recevoir attraper
se tromper;se perdre;se fâcher;s'endormir"""
# Large undertakings: years and months rather than hours and days.
BIG = """construire visiter découvrir traverser voyager déménager enseigner cultiver explorer vivre habiter
revenir
se marier;"""
SEASONAL = """étudier travailler apprendre vendre quitter planter cueillir cultiver arroser skier nager
courir manger boire porter photographier peindre dessiner
se baigner;se promener;s'amuser;voler;briller;pousser;jouer"""
CLOCKED = """manger boire partir arriver rentrer sortir dormir téléphoner courir nager déjeuner dîner
se lever;se réveiller;se coucher;s'endormir;se promener;jouer;prendre"""
# Sensible causes: verb ; reasons ("adj:", "avoir:", "être:", "weather:")
REASONS = """
manger;avoir:faim
commander>dish;avoir:faim
boire;avoir:soif
dormir;adj:fatigué;adj:malade;avoir:sommeil
se coucher;adj:fatigué;adj:malade;avoir:sommeil
rester;adj:fatigué;adj:malade;weather:bad;adj:occupé
se reposer;adj:fatigué;adj:malade
se dépêcher;être:en retard
courir;être:en retard;avoir:froid
prendre;être:en retard;weather:bad;lack:de voiture
rentrer;adj:fatigué;adj:malade;weather:bad;avoir:faim;avoir:froid
pleurer;adj:triste;adj:seul;avoir:peur
crier;avoir:peur;être:en colère
rire;adj:content;adj:heureux
chanter;adj:content;adj:heureux
danser;adj:content;adj:heureux
voyager;être:en vacances;adj:riche
travailler;lack:d'argent
vendre>vehicle bought gift;lack:d'argent
mettre>warm;avoir:froid;weather:cold
ouvrir>doorlike;avoir:chaud;weather:hot
fermer>doorlike;avoir:froid;weather:cold
téléphoner;adj:inquiet;adj:seul
appeler;adj:inquiet;adj:seul
se cacher;avoir:peur;adj:timide
emprunter>money;lack:d'argent
mentir;avoir:peur
se baigner;avoir:chaud;weather:hot
s'ennuyer;adj:seul
s'asseoir;adj:fatigué
se taire;adj:timide;avoir:peur
nager;avoir:chaud
"""
# Sensible for "it is ... to" and "we have to".
NEEDED = """apprendre étudier trouver comprendre dormir voyager acheter réparer préparer nettoyer ranger
arroser visiter nourrir protéger aider choisir finir traverser ouvrir fermer conduire nager marcher attendre
traduire travailler cuisiner jouer prendre écouter manger boire lire écrire cultiver remercier inviter skier
partager résoudre quitter laver"""

# Small daily acts: these follow one another in a narrative.
DAILY = """manger boire préparer lire écrire regarder écouter laver nettoyer ranger réparer ouvrir fermer
allumer éteindre arroser nourrir promener finir commencer téléphoner parler dormir travailler jouer nager
courir cuisiner danser chanter dîner déjeuner acheter payer partir sortir rentrer envoyer répondre étudier
donner montrer apporter rencontrer appeler aider attendre chercher choisir dessiner commander marcher
cueillir rendre raconter expliquer prêter remercier inviter aller mettre
se lever;se réveiller;se coucher;se laver;s'habiller;se promener;se reposer;se baigner;s'amuser;rendre visite
se brosser les dents;se laver les mains;s'occuper;s'asseoir"""
# Purposes: where or what ; verb>classes of object
PURPOSES = """
bibliothèque;lire>read;étudier>subject;emprunter>read
musée;regarder>picture
gare;prendre>transport;attendre>kin
marché;acheter>fruit veg;vendre>fruit veg
restaurant;dîner;déjeuner;manger>dish
cinéma;regarder>watch
poste;envoyer>send;acheter>stamp
boulangerie;acheter>bread cake
parc;jouer;courir;se promener;marcher
plage;nager;jouer;s'amuser;se promener
piscine;nager
supermarché;acheter>food drink
université;étudier>subject;enseigner>subject
ferme;nourrir>farm;acheter>food
zoo;voir>wild
librairie;acheter>read
montagne;skier;se reposer;marcher
mer;nager;se reposer;se promener
campagne;se reposer;se promener
forêt;courir;se promener;photographier>scenery
jardin;cueillir>picked;jouer;dîner
se lever;préparer>meal;travailler;étudier>subject;courir;promener>walkable
sortir;promener>walkable;acheter>food;marcher;jouer;se promener
rentrer;préparer>meal;se reposer;dormir;nourrir>pet;s'occuper>pet kin
venir;aider>kin;parler>friendly;rendre visite>kin;jouer;travailler
se dépêcher;prendre>transport;finir>finish
rester;aider>kin;finir>finish;étudier>subject;travailler
téléphoner;inviter>kin;parler>event
"""
# "without": main ; verb>classes
LACKING = """
partir;payer>meal;manger;fermer>doorlike;remercier>kin;saluer>friendly;attendre>kin;téléphoner>kin
sortir;mettre>warm;fermer>doorlike;déjeuner;s'habiller
se coucher;dîner;éteindre>lamp;se brosser les dents
répondre;réfléchir;lire>letterlike
rentrer;acheter>bread;parler>kin
voyager;prendre>plane;parler
se promener;parler
travailler;parler;manger
manger;se laver les mains
"""
# "if": condition ; verb>classes of what would follow
CONSEQUENCES = """
money;acheter>vehicle bought gift;voyager;visiter>visited
time;apprendre>subject learn;lire>read;étudier>subject;cuisiner;rendre visite>kin;aider>kin;voyager;jouer
nice;se promener;se baigner;nager;jouer;sortir;courir;arroser>garden planted
hot;se baigner;nager;ouvrir>doorlike
cold;mettre>warm;rester;fermer>doorlike;boire>hotdrink
bad;rester;fermer>doorlike;prendre>transport;regarder>watch;lire>read
sick;rester;dormir;se coucher;se reposer;téléphoner>friendly
ready;partir;sortir;commencer>start
free;aider>kin;venir;jouer;voyager;accompagner>kin
hungry;manger>food;commander>dish;préparer>meal
thirsty;boire>drink
sleepy;dormir;se coucher
can;aider>kin;venir;finir>finish;accompagner>kin;réparer>repairable;répondre>friendly;acheter>food gift
there;visiter>visited;prendre>transport;rendre visite>kin;manger>food;apprendre>learn
live;visiter>visited;apprendre>subject;acheter>bought;travailler;se promener
vehicle;voyager;partir;accompagner>kin
"""

# Over in a moment: no "was -ing", no "is -ing".
INSTANT = """ouvrir fermer allumer éteindre rencontrer finir commencer choisir commander mettre rendre
donner payer inviter gagner trouver perdre quitter découvrir oublier recevoir arriver entrer casser rater
attraper voler comprendre
s'asseoir;se lever;se réveiller;se coucher;s'endormir;se marier;se tromper;se perdre;se taire;se cacher;
se fâcher;"""
# What one starts, stops, continues, finishes; what one learns or knows how to do; what nobody plans.
LASTING = """travailler manger lire écrire chanter danser parler jouer étudier marcher courir nager cuisiner
préparer ranger nettoyer dessiner peindre boire laver réparer traduire construire arroser apprendre
conduire"""
SKILLS = """conduire nager danser cuisiner jouer lire écrire skier dessiner peindre parler chanter réparer
préparer construire traduire cultiver"""
UNPLANNED = (
    """pleurer;arriver;trouver;recevoir;s'ennuyer;s'endormir;se fâcher;se taire;se tromper;se perdre"""
)
# What one tells people not to do.
FORBIDDEN = """manger boire ouvrir fermer toucher parler crier courir fumer mentir oublier perdre casser
vendre pleurer partir sortir nager lire écouter suivre acheter utiliser prendre traverser jouer téléphoner
dire raconter donner
se fâcher;se baigner;s'asseoir;se moquer;se cacher;se plaindre"""
CHARACTERS = (
    "timide bavard courageux prudent paresseux sérieux drôle généreux patient gentil "
    "poli intelligent curieux honnête"
)
MOODS = "fatigué malade content occupé inquiet triste heureux seul"

# Every day's routine: "this morning" suits it, a date does not.
ROUTINE = """se lever;se réveiller;se coucher;se laver;s'habiller;se raser;se brosser les dents;
se laver les mains;s'asseoir
manger;boire;goûter;commander;servir;s'endormir;se taire;déjeuner;dîner;dormir;rire;pleurer;crier;rêver"""
OUTDOORS = """sortir aller nager courir marcher promener arroser partir cueillir laver jouer
se promener;se baigner"""
